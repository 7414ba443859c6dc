// A client on Node's tls, for the tests: sends a question to localhost, prints the answer. Usage: peer.js PORT CA
const fs = require("fs");
const tls = require("tls");

const [port, authority] = process.argv.slice(2);
const options = { host: "127.0.0.1", port, servername: "localhost", ca: fs.readFileSync(authority) };
const connection = tls.connect(options, () => connection.write("question\n"));
connection.on("data", (bytes) => process.stdout.write(bytes));
connection.on("error", (problem) => {
  console.error(problem);
  process.exit(1);
});
