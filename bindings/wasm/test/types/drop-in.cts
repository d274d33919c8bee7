// A wallet that used the class of cashu-ts; only the import changes.
import { GCSFilter } from 'nutfilter';

export function spent(notes: Buffer[], response: { n: number; content: string }): boolean[] {
  const filter = new GCSFilter(Buffer.from(response.content, 'base64'), response.n);
  const base64: string = filter.content.toString('base64');
  const own: Buffer = GCSFilter.create(notes, 19, 784931).content;
  const numItems: number = filter.numItems;
  const general: GCSFilter = GCSFilter.create([Uint8Array.of(2)]);
  const content: Uint8Array = general.content;
  return base64.length + own.length + numItems + content.length > 0 ? filter.matchMany(notes) : [];
}
