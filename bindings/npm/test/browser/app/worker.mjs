import { suite } from './suite.mjs';

suite().then(postMessage, (error) => postMessage(String(error)));
