package listen

// ownDescriptors is the number of descriptors that the process needs besides its connections to
// clients and engines. They are for listeners, watches, the log, a few files during a reload, and
// the minimum number of lingering connections.
const ownDescriptors = 32 + minLingerConns

// maxAdminConns is the maximum number of connections to the admin listener. They come from
// operators, scrapers and probes.
const maxAdminConns = 64

// AdminConns returns how many connections the admin listener may have. The number is small even if
// descriptors are plentiful, because any client that reaches the port can open one.
func AdminConns() int { return adminConns(descriptors()) }

// Descriptors returns how many descriptors the process may have open, or 0 if unknown.
func Descriptors() int { return descriptors() }

func adminConns(limit int) int {
	if limit > 0 {
		return min(maxAdminConns, max(4, limit/16))
	}
	return maxAdminConns
}

// AffordableConns returns how many client connections a process can hold. Each of them needs a
// second connection to an engine. others is the number of further descriptors (one for each
// engine's probe). Lingering connections and admin connections (AdminConns) need descriptors as
// well. AffordableConns returns wanted, or less if the limit on descriptors requires that. A
// process that runs out of descriptors can accept no client and, worse, can reach no engine for the
// accepted ones.
func AffordableConns(wanted, others int) int { return affordableConns(wanted, others, descriptors()) }

func affordableConns(wanted, others, limit int) int {
	// Each connection needs two descriptors, and lingering connections need more (SetMax).
	admin := adminConns(limit)
	spare := limit - ownDescriptors - others - admin - admin/4
	if n := max(spare*4/9, (spare-maxLingerConns)/2); limit > 0 && n < wanted {
		return max(n, 1)
	}
	return wanted
}

// lingerConns returns how many client connections may linger at once: at most half of the
// descriptors that conns connections leave free.
func lingerConns(conns, limit int) int {
	if limit == 0 {
		return topLingerConns
	}
	left := limit - ownDescriptors - 2*conns
	return min(topLingerConns, max(maxLingerConns, left/2))
}
