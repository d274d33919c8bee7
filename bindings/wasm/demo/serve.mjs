// Serves the demo: npm run demo [-- PORT]. Run `npm run build` first.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPES = { '.html': 'text/html; charset=utf-8', '.css': 'text/css', '.js': 'text/javascript', '.mjs': 'text/javascript' };

/** Serves files below `root` on loopback; resolves to the server. `headers` gives further headers of a path. */
export function serve(root, port = 0, headers = () => ({})) {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const path = normalize(pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    try {
      const content = await readFile(join(root, path));
      response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream', ...headers(path) });
      response.end(content);
    } catch {
      response.writeHead(404).end(`${path} not found\n`);
    }
  });
  return new Promise((resolve, reject) => {
    server.on('error', reject).listen(port, '127.0.0.1', () => resolve(server));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const server = await serve(root, Number(process.argv[2] ?? 8080));
  console.log(`http://127.0.0.1:${server.address().port}/demo/`);
}
