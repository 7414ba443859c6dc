// Answers "Pong!" to every request by HTTP/2 with Node's http2 module, after it has read the request's body.
// Usage: node http2.js PORT [CERTIFICATE KEY]: over TLS with these, otherwise in clear text.
'use strict';

const fs = require('node:fs');
const http2 = require('node:http2');

const body = Buffer.from('Pong!');
const headers = { ':status': 200, 'content-type': 'text/plain', 'content-length': body.length };
const [port, cert, key] = process.argv.slice(2);
const server = key ? http2.createSecureServer({ cert: fs.readFileSync(cert), key: fs.readFileSync(key) }) : http2.createServer();
server.on('stream', (stream) => {
  stream.on('error', () => {}); // A client may leave.
  stream.on('end', () => {
    if (stream.destroyed) return;
    stream.respond(headers);
    stream.end(body);
  });
  stream.resume();
});
server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });
