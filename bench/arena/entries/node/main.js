// The arena's application with fastify. Variables tell it where to listen and what to serve; bench/arena/doors.py has them.
'use strict';

const fs = require('node:fs');
const fastify = require('fastify');
const items = require('./items.js');
const store = require('./store.js');

const variable = (name, otherwise) => process.env[name] ?? otherwise;

const directory = variable('ARENA_DATA', '/data');
const dataset = JSON.parse(fs.readFileSync(`${directory}/dataset.json`));
const number = (text, otherwise) => (Number.isInteger(Number(text)) && text !== undefined ? Number(text) : otherwise);

function sum(request, reply) {
  const { a, b } = request.query;
  reply.type('text/plain').send(String(number(a, 0) + number(b, 0) + number(request.body || undefined, 0)));
}

async function upload(request, reply) {
  let size = 0;
  for await (const piece of request.body) size += piece.length;
  return reply.type('text/plain').send(String(size));
}

function things(request, reply) {
  const factor = number(request.query.m, 1);
  const found = dataset.slice(0, number(request.params.count, 0))
    .map((item) => ({ ...item, total: item.price * item.quantity * factor }));
  reply.send({ items: found, count: found.length });
}

async function application(options) {
  const app = fastify({ logger: false, bodyLimit: 64 << 20, ...options });
  // Bodies of uploads are streams; those of sums are text.
  app.addContentTypeParser('application/octet-stream', (_request, payload, done) => done(null, payload));
  await app.register(require('@fastify/compress'), { global: false, encodings: ['br', 'gzip'] });
  await app.register(require('@fastify/static'), {
    root: `${directory}/static`, prefix: '/static/', preCompressed: true,
  });
  if (!options.http2) await app.register(require('@fastify/websocket'));
  app.route({ method: ['GET', 'POST'], url: '/baseline11', handler: sum });
  app.get('/baseline2', sum);
  app.get('/pipeline', (_request, reply) => reply.type('text/plain').send('ok'));
  app.get('/json/:count', { schema: items.listedSchema(true), compress: { threshold: 0 } }, things);
  app.post('/upload', upload);
  if (!options.http2) {
    app.get('/ws', { websocket: true }, (socket) => {
      socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary }));
    });
  }
  if (process.env.DATABASE_URL) store.routes(app);
  return app;
}

async function main() {
  const host = variable('ARENA_HOST', '0.0.0.0');
  const tls = {
    cert: fs.readFileSync(variable('ARENA_CERTIFICATE', '/certs/server.crt')),
    key: fs.readFileSync(variable('ARENA_KEY', '/certs/server.key')),
  };
  const doors = [
    ['ARENA_HTTP_PORT', '8080', {}],
    ['ARENA_TLS_PORT', '8081', { https: tls }],
    ['ARENA_H2C_PORT', '8082', { http2: true }],
    ['ARENA_H2_PORT', '8443', { http2: true, https: { ...tls, allowHTTP1: true } }],
  ];
  for (const [name, otherwise, options] of doors) {
    const app = await application(options);
    await app.listen({ host, port: Number(variable(name, otherwise)), backlog: 4096 });
  }
}

main();
