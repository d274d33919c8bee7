// Verifies the filters of two blocks and looks for a script in them, then does the same by a plan that is stopped, kept and
// read back between any two calls. The first block is the genesis block of testnet.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nutfilter.h"

static void from_hex(const char *hex, uint8_t *bytes) {
    for (size_t i = 0; hex[2 * i]; i++) sscanf(hex + 2 * i, "%2hhx", &bytes[i]);
}

static void count(void *context, const uint8_t *script, size_t len) {
    assert(len == 67 && script[0] == 0x41);
    ++*(int *)context;
}

static void found(void *context, uint32_t height, const uint8_t *script, size_t len) {
    assert(height == 0);
    count(context, script, len);
}

// Bytes that a program would keep in a file.
struct bytes {
    uint8_t *at;
    size_t len;
};

static void append(void *context, const uint8_t *bytes, size_t len) {
    struct bytes *file = context;
    file->at = realloc(file->at, file->len + len);
    memcpy(file->at + file->len, bytes, len);
    file->len += len;
}

// Stops and starts again.
static nutfilter_plan *restart(nutfilter_plan *plan) {
    struct bytes file = {0};
    assert(nutfilter_plan_to_bytes(plan, append, &file) == NUTFILTER_YES);
    nutfilter_plan_free(plan);
    plan = nutfilter_plan_from_bytes(file.at, file.len);
    assert(plan && !nutfilter_plan_from_bytes(file.at, file.len - 1));
    file.at[9] ^= 1;
    assert(!nutfilter_plan_from_bytes(file.at, file.len));
    free(file.at);
    return plan;
}

// The loop of a wallet: its peer gives a wrong filter for the second block at first.
static void scan_by_plan(const uint8_t *script, size_t len, const nutfilter_filter filters[2], const nutfilter_chain *chain) {
    const uint8_t empty[1] = {0};
    nutfilter_plan *plan = nutfilter_plan_new(0);
    assert(nutfilter_plan_insert(plan, script, len, UINT32_MAX) == NUTFILTER_YES);
    assert(nutfilter_plan_insert(plan, script, len, 0) == NUTFILTER_YES);
    assert(nutfilter_plan_insert(plan, script, len, 0) == NUTFILTER_NO);
    int tested = 0, taken = 0, scripts = 0;
    uint32_t heights[100];
    size_t some;
    for (nutfilter_status next; (next = nutfilter_plan_next(plan, 2, heights, 100, &some)) != NUTFILTER_NO;) {
        if (next == NUTFILTER_APPLY) {
            assert(some == 1 && heights[0] == 0 && tested == 2);
            nutfilter_plan_applied(plan, heights[0]);
            taken++;
        } else {
            nutfilter_filter batch[2];
            nutfilter_status results[2];
            for (size_t i = 0; i < some; i++) {
                batch[i] = filters[heights[i]];
                if (tested > 0) batch[i].bytes = empty, batch[i].len = 1;
            }
            nutfilter_status all = nutfilter_plan_scan(plan, chain, batch, some, results, found, &scripts);
            assert(all == (tested ? NUTFILTER_NO : NUTFILTER_WRONG_FILTER));
            assert(results[some - 1] == all && (tested || (some == 2 && results[0] == NUTFILTER_YES)));
            tested++;
        }
        plan = restart(plan);
    }
    assert(tested == 2 && taken == 1 && scripts == 1);
    nutfilter_plan_rewind(plan, 1);
    assert(nutfilter_plan_next(plan, 2, heights, 100, &some) == NUTFILTER_YES && some == 1 && heights[0] == 1);
    // Nothing is asked of NULL.
    assert(nutfilter_plan_next(plan, 2, NULL, 100, &some) == NUTFILTER_NULL);
    assert(nutfilter_plan_next(plan, 2, heights, 0, &some) == NUTFILTER_NULL);
    assert(nutfilter_plan_next(NULL, 2, heights, 100, &some) == NUTFILTER_NULL);
    assert(nutfilter_plan_scan(plan, NULL, filters, 2, NULL, NULL, NULL) == NUTFILTER_NULL);
    assert(nutfilter_plan_scan(plan, chain, filters, 2, NULL, NULL, NULL) == NUTFILTER_NULL);
    assert(nutfilter_plan_to_bytes(plan, NULL, NULL) == NUTFILTER_NULL);
    assert(nutfilter_plan_insert(plan, NULL, 1, 0) == NUTFILTER_NULL);
    nutfilter_plan_free(plan);
}

int main(void) {
    uint8_t script[67], filter[4], wrong[4], header[32], tip[32], previous[32] = {0}, hashes[2][32] = {{0}};
    from_hex("4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba"
             "0b8d578a4c702b6bf11d5fac", script);
    from_hex("019dfca8", filter);
    memcpy(wrong, filter, sizeof wrong);
    wrong[3] ^= 1;
    // Hashes are in internal order: the reverse of what is printed.
    nutfilter_filter filters[2] = {{.bytes = filter, .len = sizeof filter}, {.height = 1, .bytes = wrong, .len = sizeof wrong}};
    from_hex("43497fd7f826957108f4a30fd9cec3aeba79972084e90ead01ea330900000000", filters[0].block_hash);
    from_hex("4c8af7fa3ac4111dc5fd7581d176c02dbbfde83fd6f16496a576fbd6b20537c0", hashes[0]);
    from_hex("50b781aed7b7129012a6d20e2d040027937f3affaee573779908ebb779455821", header);

    assert(strcmp(nutfilter_version(), NUTFILTER_VERSION) == 0);
    nutfilter_watchlist *list = nutfilter_watchlist_new();
    assert(nutfilter_watchlist_insert(list, script, sizeof script) == NUTFILTER_YES);
    assert(nutfilter_watchlist_insert(list, script, sizeof script) == NUTFILTER_NO);
    assert(nutfilter_watchlist_insert(list, (const uint8_t *)"other", 5) == NUTFILTER_YES);
    assert(nutfilter_watchlist_remove(list, (const uint8_t *)"other", 5) == NUTFILTER_YES);

    // One filter, not verified.
    int scripts = 0;
    assert(nutfilter_match(list, &filters[0]) == NUTFILTER_YES);
    assert(nutfilter_matches(list, &filters[0], count, &scripts) == NUTFILTER_YES && scripts == 1);

    // The hashes are those of messages `cfheaders`. Compare the tip with what several peers say.
    nutfilter_chain *chain = nutfilter_chain_new(0, previous);
    assert(nutfilter_chain_extend(chain, previous, hashes[0], 1, previous) == NUTFILTER_OTHER_TIP); // a lie
    assert(nutfilter_chain_extend(chain, previous, hashes[0], 1, header) == NUTFILTER_YES);
    assert(nutfilter_chain_extend(chain, previous, hashes[0], 2, NULL) == NUTFILTER_NOT_CONNECTED); // an overlap
    assert(nutfilter_chain_extend(chain, header, NULL, 0, NULL) == NUTFILTER_NO);
    struct bytes file = {0};
    assert(nutfilter_chain_to_bytes(chain, 0, append, &file) == NUTFILTER_YES);
    size_t before = file.len, whole;
    from_hex("14e6dc99c8ecf9f8a1f7ad0eb2dcd1eb8b7a1fd8a0d8b3f8e3b1c7a5e0f2d4c6", hashes[1]);
    assert(nutfilter_chain_extend(chain, header, hashes[1], 1, NULL) == NUTFILTER_YES);
    nutfilter_status results[3];
    assert(nutfilter_scan(list, chain, filters, 2, results) == NUTFILTER_WRONG_FILTER);
    for (int i = 0; i < 2; i++) printf("block %d: %s\n", i, nutfilter_status_text(results[i]));
    char error[200], short_error[5];
    nutfilter_last_error(error, sizeof error);
    printf("%s\n", error);
    assert(strcmp(error, "the filter at height 1 does not match its filter header") == 0);
    assert(nutfilter_last_error(short_error, sizeof short_error) == strlen(error) && strcmp(short_error, "the ") == 0);
    assert(nutfilter_last_error(NULL, 0) == strlen(error));
    assert(results[0] == NUTFILTER_YES && results[1] == NUTFILTER_WRONG_FILTER);
    assert(nutfilter_chain_rewind(chain, 1) == NUTFILTER_YES);
    assert(nutfilter_chain_tip(chain, tip) == NUTFILTER_YES && memcmp(tip, header, sizeof tip) == 0);
    assert(nutfilter_scan(list, chain, filters, 2, results) == NUTFILTER_NO_HEADER && results[0] == NUTFILTER_YES);
    nutfilter_filter bad[3] = {filters[0], filters[1], filters[1]}; // the first error counts
    bad[1].height = 0;
    assert(nutfilter_scan(list, chain, bad, 3, results) == NUTFILTER_WRONG_FILTER && results[2] == NUTFILTER_NO_HEADER);

    // New headers are appended to those that are kept; a crash may leave half of them.
    assert(nutfilter_chain_extend(chain, header, hashes[1], 1, NULL) == NUTFILTER_YES);
    assert(nutfilter_chain_to_bytes(chain, 1, append, &file) == NUTFILTER_YES);
    assert(file.len == 2 * before); // one header each, and the one before
    assert(!nutfilter_chain_from_bytes(file.at, file.len - 1, &whole) && whole == before);
    nutfilter_chain_free(chain);
    chain = nutfilter_chain_from_bytes(file.at, file.len, &whole);
    assert(chain && whole == file.len);
    file.at[20] ^= 1;
    assert(!nutfilter_chain_from_bytes(file.at, file.len, &whole) && whole == 0);
    free(file.at);
    assert(nutfilter_chain_rewind(chain, 1) == NUTFILTER_YES);
    from_hex("1406e05881e299367766d313e26c05564ec91bf721d31726bd6e46e60689539a", hashes[1]);
    assert(nutfilter_chain_extend(chain, header, hashes[1], 1, NULL) == NUTFILTER_YES);
    scan_by_plan(script, sizeof script, filters, chain);

    // There are no headers above height 2^32 - 1.
    nutfilter_chain *last = nutfilter_chain_new(UINT32_MAX, previous);
    assert(nutfilter_chain_extend(last, previous, hashes[0], 1, NULL) == NUTFILTER_YES);
    nutfilter_filter two[2] = {filters[0], filters[0]};
    two[0].height = UINT32_MAX;
    assert(nutfilter_scan(list, last, two, 2, results) == NUTFILTER_NO_HEADER);
    assert(results[0] == NUTFILTER_YES && results[1] == NUTFILTER_NO_HEADER);
    assert(nutfilter_chain_rewind(last, 5) == NUTFILTER_NO_HEADER);
    nutfilter_chain_free(last);

    // Bad input gives errors.
    for (size_t len = 0; len < sizeof filter; len++) {
        filters[1].len = len;
        assert(nutfilter_match(list, &filters[1]) == NUTFILTER_INVALID_FILTER);
    }
    nutfilter_last_error(error, sizeof error);
    printf("%s\n", error);
    filters[1] = (nutfilter_filter){.bytes = NULL, .len = 4};
    assert(nutfilter_match(list, &filters[1]) == NUTFILTER_NULL);
    assert(nutfilter_scan(list, chain, filters, 2, results) == NUTFILTER_NULL);
    assert(nutfilter_scan(list, chain, NULL, 0, NULL) == NUTFILTER_NO);
    assert(nutfilter_watchlist_insert(NULL, script, 1) == NUTFILTER_NULL);

    nutfilter_chain_free(chain);
    nutfilter_watchlist_free(list);
    return 0;
}
