// Matches scripts against Bitcoin's basic block filters (BIP158). Written by cbindgen from src/lib.rs; do not edit.
//
// Each handle is NULL or from a function that makes it, and not freed. A pointer is NULL or points to as many elements as are said
// next to it, or to one. Bytes are copied or borrowed for one call. Hashes and headers have 32 bytes in internal order, the reverse of
// the order in which they are printed.

#ifndef NUTFILTER_H
#define NUTFILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this header; `nutfilter_version()` is that of the library.
#define NUTFILTER_VERSION "0.1.0"

// What a function returns. Values below 0 are errors.
enum nutfilter_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // No script of the list is in the block, or nothing was changed.
  NUTFILTER_NO = 0,
  // The block may have scripts of the list: download it. Or something was changed.
  NUTFILTER_YES = 1,
  // The wallet takes this block next.
  NUTFILTER_APPLY = 2,
  // A pointer is NULL although its length is not 0.
  NUTFILTER_NULL = -1,
  // The filter is invalid. If its header commits to it, every peer has it.
  NUTFILTER_INVALID_FILTER = -2,
  // The filter header commits to another filter: ask another peer.
  NUTFILTER_WRONG_FILTER = -3,
  // The chain has no filter header for this height.
  NUTFILTER_NO_HEADER = -4,
  // The hashes do not continue the chain: they overlap it, leave a gap, or belong to another branch.
  NUTFILTER_NOT_CONNECTED = -5,
  // The hashes lead to another header than the trusted one: ask another peer.
  NUTFILTER_OTHER_TIP = -6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nutfilter_status nutfilter_status;
#else
typedef int32_t nutfilter_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The filter headers of consecutive blocks. Several threads may read it at once.
typedef struct nutfilter_chain nutfilter_chain;

// Which scripts of a wallet remain to be tested at which heights. Use a plan on one thread at a time.
typedef struct nutfilter_plan nutfilter_plan;

// Scripts to look for, and memory for matching. Use a list on one thread at a time.
typedef struct nutfilter_watchlist nutfilter_watchlist;

// A block's filter.
typedef struct nutfilter_filter {
  // The block hash: that of your own chain of block headers at this height.
  uint8_t block_hash[32];
  // The height of the block.
  uint32_t height;
  // The serialised filter: its count, then the coded set.
  const uint8_t *bytes;
  // The number of bytes.
  size_t len;
} nutfilter_filter;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes an empty list. Free it with `nutfilter_watchlist_free`.
struct nutfilter_watchlist *nutfilter_watchlist_new(void);

// Frees a list; NULL is ignored.
void nutfilter_watchlist_free(struct nutfilter_watchlist *list);

// Adds a script. Returns `NUTFILTER_NO` if it was there already.
nutfilter_status nutfilter_watchlist_insert(struct nutfilter_watchlist *list,
                                            const uint8_t *script,
                                            size_t len);

// Removes a script. Returns `NUTFILTER_NO` if it was not there.
nutfilter_status nutfilter_watchlist_remove(struct nutfilter_watchlist *list,
                                            const uint8_t *script,
                                            size_t len);

// Whether a filter may have a script of the list. Does not verify the filter against its header.
nutfilter_status nutfilter_match(struct nutfilter_watchlist *list,
                                 const struct nutfilter_filter *filter);

// As `nutfilter_match`, and calls `found` with `context` and each script of the list that may be in the block. The
// script is valid during the call, which must not use the list.
nutfilter_status nutfilter_matches(struct nutfilter_watchlist *list,
                                   const struct nutfilter_filter *filter,
                                   void (*found)(void *context, const uint8_t *script, size_t len),
                                   void *context);

// Verifies `count` filters against the filter headers of `chain`, and matches those that are right. Writes a status for each to
// `results`. Several filters are hashed side by side: give 32 or more.
//
// Returns the first error among the results, or else whether any is `NUTFILTER_YES`.
nutfilter_status nutfilter_scan(struct nutfilter_watchlist *list,
                                const struct nutfilter_chain *chain,
                                const struct nutfilter_filter *filters,
                                size_t count,
                                nutfilter_status *results);

// Makes a plan without scripts, for filters from height `start` on. Free it with `nutfilter_plan_free`.
struct nutfilter_plan *nutfilter_plan_new(uint32_t start);

// Frees a plan; NULL is ignored.
void nutfilter_plan_free(struct nutfilter_plan *plan);

// Adds a script that was not used below height `from`: the birthday of its wallet, or `UINT32_MAX` for a new one. At any time.
//
// Returns `NUTFILTER_NO` if it was in the plan already from this height on.
nutfilter_status nutfilter_plan_insert(struct nutfilter_plan *plan,
                                       const uint8_t *script,
                                       size_t len,
                                       uint32_t from);

// What to do next; `end` is the height after the last filter that the client has.
//
// Returns `NUTFILTER_YES` and writes heights, at least one and at most `size`, and their number to `count`: give these filters, or
// some of them, to `nutfilter_plan_scan`. Returns `NUTFILTER_APPLY` and writes one height: let the wallet take this block, then
// call `nutfilter_plan_applied`. Returns `NUTFILTER_NO` if nothing is left to do.
nutfilter_status nutfilter_plan_next(struct nutfilter_plan *plan,
                                     uint32_t end,
                                     uint32_t *heights,
                                     size_t size,
                                     size_t *count);

// Verifies filters that `nutfilter_plan_next` asked for, looks for the scripts that remain, and records what was tested. Writes a
// status for each filter to `results`, and calls `found` with `context` and each script that may be in a block: reveal the
// addresses after it. The script is valid during the call, which must not use the plan; insert scripts afterwards.
//
// A height that is missing, or whose filter is wrong, is asked for again. Returns as `nutfilter_scan`.
nutfilter_status nutfilter_plan_scan(struct nutfilter_plan *plan,
                                     const struct nutfilter_chain *chain,
                                     const struct nutfilter_filter *filters,
                                     size_t count,
                                     nutfilter_status *results,
                                     void (*found)(void *context,
                                                   uint32_t height,
                                                   const uint8_t *script,
                                                   size_t len),
                                     void *context);

// Records that the wallet has taken the block at `height`. NULL is ignored.
void nutfilter_plan_applied(struct nutfilter_plan *plan, uint32_t height);

// Forgets the filters from `height` on: a reorganisation replaced their blocks. The wallet forgets them too. NULL is ignored.
void nutfilter_plan_rewind(struct nutfilter_plan *plan,
                           uint32_t height);

// Calls `write` once with `context` and the plan as bytes, with a checksum, valid during the call. Keep them after each step.
nutfilter_status nutfilter_plan_to_bytes(const struct nutfilter_plan *plan,
                                         void (*write)(void *context,
                                                       const uint8_t *bytes,
                                                       size_t len),
                                         void *context);

// Reads what `nutfilter_plan_to_bytes` wrote. Returns NULL if it is damaged or of another version: then begin a new plan. Free it
// with `nutfilter_plan_free`.
struct nutfilter_plan *nutfilter_plan_from_bytes(const uint8_t *bytes,
                                                 size_t len);

// Copies what was wrong in the last call on this thread that returned `NUTFILTER_INVALID_FILTER`, `NUTFILTER_WRONG_FILTER`,
// `NUTFILTER_NO_HEADER`, or NULL for bytes, with its numbers, to `text`: at most `size` bytes with the zero at the end.
//
// Returns the length of the whole text without the zero, as `snprintf` does; 200 bytes are enough.
size_t nutfilter_last_error(char *text,
                            size_t size);

// The version of this library, as text: compare it with `NUTFILTER_VERSION`.
const char *nutfilter_version(void);

// What a status means. The text is static.
const char *nutfilter_status_text(int32_t status);

// Makes a chain that begins with the filter at height `first`. `previous` has 32 bytes: the filter header of the block before,
// or zeros before the genesis block. Returns NULL if `previous` is NULL. Free it with `nutfilter_chain_free`.
struct nutfilter_chain *nutfilter_chain_new(uint32_t first,
                                            const uint8_t *previous);

// Frees a chain; NULL is ignored.
void nutfilter_chain_free(struct nutfilter_chain *chain);

// Calls `write` once with `context` and the headers from height `from` on as bytes, with a checksum, valid during the call. Append
// them to a file that holds those before; after a reorganisation, begin at the first height that was replaced.
nutfilter_status nutfilter_chain_to_bytes(const struct nutfilter_chain *chain,
                                          uint32_t from,
                                          void (*write)(void *context,
                                                        const uint8_t *bytes,
                                                        size_t len),
                                          void *context);

// Reads what `nutfilter_chain_to_bytes` wrote, once or several times. Returns NULL if it is damaged or of another version. If only
// the last part is cut off, as after a crash, `whole` is then the number of bytes before it, otherwise 0: read these. Free the chain
// with `nutfilter_chain_free`.
struct nutfilter_chain *nutfilter_chain_from_bytes(const uint8_t *bytes,
                                                   size_t len,
                                                   size_t *whole);

// Adds the headers of `count` filters with these hashes. `hashes` and `previous`, the previous header, are those of a
// message `cfheaders`. `trusted` is the last header then: of a checkpoint, or what several peers agree on; or NULL.
//
// Returns `NUTFILTER_NOT_CONNECTED` if `previous` is not the last header of the chain, and `NUTFILTER_OTHER_TIP` if the hashes do
// not lead to the trusted header. Then nothing is added.
nutfilter_status nutfilter_chain_extend(struct nutfilter_chain *chain,
                                        const uint8_t *previous,
                                        const uint8_t *hashes,
                                        size_t count,
                                        const uint8_t *trusted);

// Forgets the filters from `height` on: a reorganisation replaced their blocks. Returns `NUTFILTER_NO_HEADER` and changes
// nothing if the chain begins after `height`.
nutfilter_status nutfilter_chain_rewind(struct nutfilter_chain *chain,
                                        uint32_t height);

// Writes the last header to `tip`, 32 bytes. Compare it with a checkpoint, or with what several peers say.
nutfilter_status nutfilter_chain_tip(const struct nutfilter_chain *chain,
                                     uint8_t *tip);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NUTFILTER_H */
