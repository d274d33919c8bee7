import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.mjs': 'text/javascript' };

/**
 * Serves files below `root` on loopback, with these headers; resolves to the server. What `mint(path, body)` returns for a path that
 * begins with `/v1/` is for every origin.
 */
export function serve(root, headers, mint) {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (pathname.startsWith('/v1/')) {
      const body = Buffer.concat(await request.toArray()).toString();
      const allowed = { 'access-control-allow-origin': '*', 'access-control-allow-headers': 'content-type' };
      response.writeHead(200, allowed).end(request.method === 'OPTIONS' ? '' : JSON.stringify(mint(pathname, body && JSON.parse(body))));
      return;
    }
    const path = normalize(pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    try {
      const content = await readFile(join(root, path));
      response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream', ...headers });
      response.end(content);
    } catch {
      response.writeHead(404).end(`${path} not found\n`);
    }
  });
  return new Promise((resolve, reject) => {
    server.on('error', reject).listen(0, '127.0.0.1', () => resolve(server));
  });
}
