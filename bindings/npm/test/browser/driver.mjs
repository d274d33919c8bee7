// A minimal WebDriver client for Debian's chromedriver and chromium.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const ARGUMENTS = [
  'headless', 'no-sandbox', 'disable-gpu', 'disable-quic', 'no-first-run',
  'disable-background-networking', 'disable-component-update', 'disable-sync',
];

export async function open() {
  const driver = spawn('/usr/bin/chromedriver', ['--port=0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  driver.on('error', () => console.error('install: apt-get install --no-install-recommends chromium chromium-driver'));
  let port;
  for await (const line of createInterface({ input: driver.stdout })) {
    port = /started successfully on port (\d+)/.exec(line)?.[1];
    if (port) {
      break;
    }
  }
  driver.stdout.resume();
  const call = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (!response.ok) {
      throw new Error(`${value.error}: ${value.message}`);
    }
    return value;
  };
  const options = { args: ARGUMENTS.map((argument) => `--${argument}`) };
  const capabilities = { alwaysMatch: { browserName: 'chrome', 'goog:chromeOptions': options } };
  const { sessionId } = await call('POST', '/session', { capabilities });
  const session = `/session/${sessionId}`;
  await call('POST', `${session}/timeouts`, { script: 300_000 });
  return {
    go: (url) => call('POST', `${session}/url`, { url }),
    /** Runs the body of an async function in the page. */
    run: (body) => {
      const script = `const done = arguments[arguments.length - 1];
        (async () => { ${body} })().then((value) => done({ value }), (error) => done({ error: String(error) }));`;
      return call('POST', `${session}/execute/async`, { script, args: [] }).then(({ value, error }) => {
        if (error) {
          throw new Error(error);
        }
        return value;
      });
    },
    close: async () => {
      await call('DELETE', session);
      driver.kill();
    },
  };
}
