import * as library from 'nutfilter';
import { suite } from './suite.mjs';

suite(library).then(
  (engine) => postMessage(engine),
  (error) => postMessage(String(error)),
);
