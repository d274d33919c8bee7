import { suite } from './suite.mjs';

postMessage(suite());
