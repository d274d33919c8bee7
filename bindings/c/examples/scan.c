// Verifies the filters of two blocks and looks for a script in them. The first is the genesis block of testnet.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "nutfilter.h"

static void from_hex(const char *hex, uint8_t *bytes) {
    for (size_t i = 0; hex[2 * i]; i++) sscanf(hex + 2 * i, "%2hhx", &bytes[i]);
}

static void count(void *context, const uint8_t *script, size_t len) {
    assert(len == 67 && script[0] == 0x41);
    ++*(int *)context;
}

int main(void) {
    uint8_t script[67], filter[4], wrong[4], header[32], tip[32], previous[32] = {0}, hashes[2][32] = {{0}};
    from_hex("4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba"
             "0b8d578a4c702b6bf11d5fac", script);
    from_hex("019dfca8", filter);
    memcpy(wrong, filter, sizeof wrong);
    wrong[3] ^= 1;
    // Hashes are in internal order: the reverse of what is printed.
    nutfilter_filter filters[2] = {{.bytes = filter, .len = sizeof filter}, {.bytes = wrong, .len = sizeof wrong}};
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
    assert(nutfilter_chain_extend(chain, previous, hashes[0], 2) == NUTFILTER_YES);
    assert(nutfilter_chain_extend(chain, header, hashes[1], 1) == NUTFILTER_NOT_CONNECTED); // an overlap
    nutfilter_status results[2];
    assert(nutfilter_scan(list, chain, 0, filters, 2, results) == NUTFILTER_WRONG_FILTER);
    for (int i = 0; i < 2; i++) printf("block %d: %s\n", i, nutfilter_status_text(results[i]));
    char error[200], short_error[5];
    nutfilter_last_error(list, error, sizeof error);
    printf("%s\n", error);
    assert(strcmp(error, "the filter at height 1 does not match its filter header") == 0);
    assert(nutfilter_last_error(list, short_error, sizeof short_error) == strlen(error) && strcmp(short_error, "the ") == 0);
    assert(nutfilter_last_error(NULL, error, sizeof error) == 0 && error[0] == 0);
    assert(results[0] == NUTFILTER_YES && results[1] == NUTFILTER_WRONG_FILTER);
    assert(nutfilter_chain_rewind(chain, 1) == NUTFILTER_YES);
    assert(nutfilter_chain_tip(chain, tip) == NUTFILTER_YES && memcmp(tip, header, sizeof tip) == 0);
    assert(nutfilter_scan(list, chain, 0, filters, 2, results) == NUTFILTER_NO_HEADER && results[0] == NUTFILTER_YES);

    // There are no headers above height 2^32 - 1.
    nutfilter_chain *last = nutfilter_chain_new(UINT32_MAX, previous);
    assert(nutfilter_chain_extend(last, previous, hashes[0], 1) == NUTFILTER_YES);
    nutfilter_filter two[2] = {filters[0], filters[0]};
    assert(nutfilter_scan(list, last, UINT32_MAX, two, 2, results) == NUTFILTER_NO_HEADER);
    assert(results[0] == NUTFILTER_YES && results[1] == NUTFILTER_NO_HEADER);
    assert(nutfilter_chain_rewind(last, 5) == NUTFILTER_NO_HEADER);
    nutfilter_chain_free(last);

    // Bad input gives errors.
    for (size_t len = 0; len < sizeof filter; len++) {
        filters[1].len = len;
        assert(nutfilter_match(list, &filters[1]) == NUTFILTER_INVALID_FILTER);
    }
    nutfilter_last_error(list, error, sizeof error);
    printf("%s\n", error);
    filters[1] = (nutfilter_filter){.bytes = NULL, .len = 4};
    assert(nutfilter_match(list, &filters[1]) == NUTFILTER_NULL);
    assert(nutfilter_scan(list, chain, 0, filters, 2, results) == NUTFILTER_NULL);
    assert(nutfilter_scan(list, chain, 0, NULL, 0, NULL) == NUTFILTER_NO);
    assert(nutfilter_watchlist_insert(NULL, script, 1) == NUTFILTER_NULL);

    nutfilter_chain_free(chain);
    nutfilter_watchlist_free(list);
    return 0;
}
