import { suite } from './suite.mjs';

suite().then(
  (engine) => postMessage(engine),
  (error) => postMessage(String(error)),
);
