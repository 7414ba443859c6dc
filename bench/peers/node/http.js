// Answers "Pong!" to every request with Node's http module. Usage: node http.js PORT WORKERS.
// One worker serves in this process. The cluster module starts several, as its documentation shows.
'use strict';

const cluster = require('node:cluster');
const http = require('node:http');

const port = Number(process.argv[2]);
const workers = Number(process.argv[3]);

function serve() {
  const body = Buffer.from('Pong!');
  const headers = { 'Content-Type': 'text/plain', 'Content-Length': body.length };
  const server = http.createServer((request, response) => {
    response.writeHead(200, headers);
    response.end(body);
  });
  server.keepAliveTimeout = 0; // Idle connections stay open, as with every other peer.
  server.listen({ port, host: '127.0.0.1', backlog: 4096 });
}

if (workers > 1 && cluster.isPrimary) {
  for (let i = 0; i < workers; i++) cluster.fork();
} else {
  serve();
}
