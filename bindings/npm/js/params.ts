import { FilterError, type FilterErrorCode } from './errors.js';

/** The default P of NUT-25 and NUT-23. */
export const DEFAULT_P = 19;
/** The default M of NUT-25 and NUT-23. */
export const DEFAULT_M = 784931;

export const MAX_U32 = 0xffffffff;

/** A coded set with its numbers. */
export interface Coded {
  readonly bytes: Uint8Array;
  readonly n: number;
  readonly p: number;
  readonly m: number;
}

/** Checks P and M. */
export function checkParams(p: number, m: number): void {
  checkInteger(p, 'P', 0, 32);
  checkInteger(m, 'M', 1, MAX_U32);
}

/**
 * Checks everything that takes constant time: the types, the limits, and whether a filter of N items can have
 * this length. A declared N can therefore not make a reader allocate.
 */
export function checkCoded({ bytes, n, p, m }: Coded): void {
  if (!isBytes(bytes)) {
    throw new FilterError('BadArgument', `the filter is ${show(bytes)}; expected a Uint8Array`);
  }
  checkParams(p, m);
  checkInteger(n, 'N', 0, MAX_U32);
  const fixedBits = n * (p + 1);
  const min = Math.ceil(fixedBits / 8);
  if (bytes.length < min) {
    const message = `filter of ${n} items has ${bytes.length} bytes; expected at least ${min}`;
    throw new FilterError('TooShort', message);
  }
  checkRange(n, m);
  const max = n === 0 ? 0 : Math.ceil((fixedBits + Math.floor((n * m - 1) / 2 ** p)) / 8);
  if (bytes.length > max) {
    const message = `filter of ${n} items has ${bytes.length} bytes; expected at most ${max}`;
    throw new FilterError('TooLong', message);
  }
}

/** Checks that all values are integers that a double holds exactly. With the default M, any N is possible. */
export function checkRange(n: number, m: number): void {
  if (n * m > Number.MAX_SAFE_INTEGER) {
    throw new FilterError('Unsupported', `N * M is about ${n * m}; this package supports products up to 2^53`);
  }
}

/** Works across realms, where `instanceof` does not. Objects that only claim to be a `Uint8Array` are not views. */
export function isBytes(value: unknown): value is Uint8Array {
  return (
    ArrayBuffer.isView(value) &&
    (value instanceof Uint8Array || Object.prototype.toString.call(value) === '[object Uint8Array]')
  );
}

/** Whether the memory has been transferred away, for example by `postMessage`. The length is then 0. */
export function isDetached(bytes: Uint8Array): boolean {
  if (bytes.length > 0) {
    return false;
  }
  try {
    new Uint8Array(bytes.buffer);
    return false;
  } catch {
    return true;
  }
}

/** Checks that the argument with the options is an object. */
export function checkOptions(options: unknown): void {
  if (typeof options !== 'object' || options === null) {
    throw new FilterError('BadArgument', `the options are ${show(options)}; expected an object`);
  }
}

/** Refuses another number, with its limits. */
export function checkInteger(value: unknown, name: string, min: number, max: number, code: FilterErrorCode = 'BadParameter'): asserts value is number {
  if (!isIntegerWithin(value, min, max)) {
    throw new FilterError(code, `${name} is ${show(value)}; expected an integer from ${min} to ${max}`);
  }
}

export function isIntegerWithin(value: unknown, min: number, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}

/** A short description of a wrong argument. */
export function show(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean' || value === undefined || value === null) {
    return String(value);
  }
  if (isBytes(value) && isDetached(value)) {
    return 'a Uint8Array whose memory was transferred away';
  }
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}
