// A client of HTTP/2 in clear text with Node's http2 module: a request, an upload, and a hundred requests at once. Usage: node
// client.js URL. It fails unless every answer is "Pong!".
'use strict';

const http2 = require('node:http2');

const session = http2.connect(process.argv[2]);
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
