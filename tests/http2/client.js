// A client of HTTP/2 with Node's http2 module: a request, an upload, and a hundred requests at once. Usage: node client.js URL
// [AUTHORITY], the second for TLS. It fails unless every answer is "Pong!".
'use strict';

const fs = require('node:fs');
const http2 = require('node:http2');

const [, , url, authority] = process.argv;
const session = http2.connect(url, authority ? { ca: fs.readFileSync(authority) } : {});
session.on('error', (error) => { throw error; });

function ask(body) {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': '/', ':method': body ? 'POST' : 'GET' });
    let status = 0;
    let text = '';
    stream.setEncoding('utf8');
    stream.on('response', (headers) => { status = headers[':status']; });
    stream.on('data', (piece) => { text += piece; });
    stream.on('error', reject);
    stream.on('end', () => (status === 200 && text === 'Pong!' ? resolve() : reject(new Error(`${status} ${text}`))));
    stream.end(body);
  });
}

(async () => {
  await ask();
  await ask(Buffer.alloc(200000));
  await Promise.all(Array.from({ length: 100 }, () => ask()));
  session.close();
})();
