// Answers "Pong!" to every request by HTTP/2 in clear text with Node's http2 module, after it has read the request's body.
// Usage: node http2.js PORT.
'use strict';

const http2 = require('node:http2');

const body = Buffer.from('Pong!');
const headers = { ':status': 200, 'content-type': 'text/plain', 'content-length': body.length };
const server = http2.createServer();
server.on('stream', (stream) => {
  stream.on('error', () => {}); // A client may leave.
  stream.on('end', () => {
    if (stream.destroyed) return;
    stream.respond(headers);
    stream.end(body);
  });
  stream.resume();
});
server.listen({ port: Number(process.argv[2]), host: '127.0.0.1', backlog: 4096 });
