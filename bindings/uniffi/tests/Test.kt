import uniffi.nutfilter.*

fun bytes(hex: String) = hex.chunked(2).map { it.toInt(16).toByte() }.toByteArray()

fun hex(bytes: ByteArray) = bytes.joinToString("") { "%02x".format(it) }

inline fun <reified E : Exception> fails(text: String, action: () -> Unit) {
    try {
        action()
    } catch (error: Exception) {
        check(error is E && text in error.message!!) { "other error: $error" }
        return
    }
    error("no error")
}

/** The points of tests/vectors/points.json, and a mint that answers about them. */
fun main(points: Array<String>) {
    val ys = points.map(::bytes)
    val built = Filter.build(ys)
    check(hex(built.content()) == "584a686dce41bbd492b87570f6c1726768cd22ac09")
    check(Filter.parse(built.content(), 8u).matches(ys + byteArrayOf(1)) == List(8) { true } + false)
    fails<NutfilterException.Rejected>("") { Filter.parse(built.content(), 9u) }
    fails<NutfilterException.Argument>("33") { Filter.build(ys, 33u) }

    // The first block of Bitcoin's testnet, from the vectors of BIP158.
    val block = bytes("43497fd7f826957108f4a30fd9cec3aeba79972084e90ead01ea330900000000")
    val script = bytes("4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384d" +
        "f7ba0b8d578a4c702b6bf11d5fac")
    val list = Watchlist(listOf(byteArrayOf(1)))
    check(!list.matchAny(block, bytes("019dfca8")))
    check(list.insert(script) && !list.insert(script))
    check(list.matchAny(block, bytes("019dfca8")) && hex(list.matches(block, bytes("019dfca8")).single()) == hex(script))
    fails<NutfilterException.Argument>("31 bytes") { list.matchAny(block.copyOf(31), bytes("019dfca8")) }

    val keyset = "01884a9a4c9edc2eb7d9a8b9d6e3c8d1f0e2a4b6c8d0e2f4a6b8c0d2e4f6a8b0c2"
    check(filterPath(keyset, false) == "/v1/filter/spent/$keyset")
    fails<NutfilterException.Argument>("") { filterPath("../x", true) }
    admitHead(Limits(), 200u, 100u, listOf())
    fails<NutfilterException.Rejected>("gzip") { admitHead(Limits(), 200u, null, listOf("gzip")) }
    val content = java.util.Base64.getEncoder().encodeToString(built.content())
    val now = System.currentTimeMillis() / 1000
    val response = """{"n":8,"p":19,"m":784931,"content":"$content","timestamp":$now}""".toByteArray()
    fails<NutfilterException.Rejected>("404") { MintFilter.accept(Limits(), 404u, "".toByteArray(), null) }
    fails<NutfilterException.Rejected>("longer than 10") { MintFilter.accept(Limits(maxBytes = 10u), 200u, response, null) }
    val old = MintFilter.accept(Limits(), 200u, response, (now + 1).toULong())
    fails<NutfilterException.Implausible>("older") { old.check(ys, null) }
    val filter = MintFilter.accept(Limits(batch = 4u), 200u, response, null)
    check(filter.check(ys, 8u).run { maybe.all { it } && warnings.isEmpty() } && filter.asOf() == now.toULong())
    fails<NutfilterException.Implausible>("expected 0") { filter.check(ys, 0u) }

    val asked = Regex("\"([0-9a-f]{96})\"")
    fun ask(spent: (String) -> Boolean): List<NoteState> {
        val talk = filter.confirmation(ys + bytes("02" + "00".repeat(32)), null)
        check(talk.path() == "/v1/checkstate")
        var requests = 0
        while (true) {
            val body = talk.request() ?: break
            val states = asked.findAll(body).map { it.groupValues[1] }.toList()
            check(states.size == 4 && states.count { it in points } < 4) { "no decoy in $body" }
            val answers = states.joinToString(",") { """{"Y":"$it","state":"${if (spent(it)) "SPENT" else "UNSPENT"}"}""" }
            talk.answer(200u, """{"states":[$answers]}""".toByteArray())
            requests++
        }
        check(requests == 3)
        return talk.finish().also { fails<NutfilterException.Query>("has ended") { talk.finish() } }
    }
    check(ask { it in points } == List(8) { NoteState.SPENT } + NoteState.ABSENT)
    fails<NutfilterException.Query>("a decoy as spent") { ask { true } }
    fails<NutfilterException.Query>("contradicts its filter") { ask { false } }
    println("ok")
}
