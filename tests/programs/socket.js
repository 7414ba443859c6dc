// Both ends of socket.io: `socket.js serve PORT`, and `socket.js ask URL`, which counts what comes back by each transport.
const [, , what, where] = process.argv;
if (what === "serve") {
  const { Server } = require("socket.io");
  const server = new Server(Number(where));
  server.on("connection", (socket) => socket.on("echo", (text, reply) => reply(text)));
} else {
  const { io } = require("socket.io-client");
  const ask = (transports) =>
    new Promise((resolve, reject) => {
      const socket = io(where, { transports, reconnection: false });
      socket.on("connect_error", reject);
      socket.on("connect", async () => {
        for (let i = 0; i < 200; i++) {
          const text = "x".repeat(i * 50) + i;
          if ((await socket.emitWithAck("echo", text)) !== text) reject(new Error("another text"));
        }
        console.log(socket.io.engine.transport.name);
        socket.disconnect();
        resolve();
      });
    });
  (async () => {
    for (const transports of [["polling"], ["websocket"], ["polling", "websocket"]]) await ask(transports);
    process.exit(0);
  })().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
