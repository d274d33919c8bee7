// Looks for a script in the filter of testnet's genesis block. Build it with CGO_CFLAGS=-I../include and
// CGO_LDFLAGS="../target/release/libnutfilter_c.a -lm".
package main

// #include <stdlib.h>
// #include "nutfilter.h"
import "C"

import (
	"encoding/hex"
	"fmt"
	"os"
	"unsafe"
)

func decode(text string) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return bytes
}

// match reports whether a block may have a script of the list.
func match(list *C.nutfilter_watchlist, blockHash, filter []byte) (bool, error) {
	// The filter lies in C memory, since Go pointers must not be stored where C reads them.
	bytes := C.CBytes(filter)
	defer C.free(bytes)
	given := C.nutfilter_filter{bytes: (*C.uint8_t)(bytes), len: C.size_t(len(filter))}
	for i, b := range blockHash {
		given.block_hash[i] = C.uint8_t(b)
	}
	status := C.nutfilter_match(list, &given)
	if status < 0 {
		var text [200]C.char
		C.nutfilter_last_error(list, &text[0], C.size_t(len(text)))
		return false, fmt.Errorf("%s: %s", C.GoString(C.nutfilter_status_text(C.int32_t(status))), C.GoString(&text[0]))
	}
	return status == C.NUTFILTER_YES, nil
}

func main() {
	list := C.nutfilter_watchlist_new()
	defer C.nutfilter_watchlist_free(list)
	script := decode("4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac")
	C.nutfilter_watchlist_insert(list, (*C.uint8_t)(unsafe.Pointer(&script[0])), C.size_t(len(script)))
	block := decode("43497fd7f826957108f4a30fd9cec3aeba79972084e90ead01ea330900000000")
	yes, err := match(list, block, decode("019dfca8"))
	_, wrong := match(list, block, decode("019dfc"))
	fmt.Println(yes, err, wrong)
	if !yes || err != nil || wrong == nil {
		os.Exit(1)
	}
}
