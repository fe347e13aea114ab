package listen

// ownDescriptors is how many descriptors the process needs in addition to its connections: for
// listeners, watches, the log, files during a reload, and the minimum number of lingering
// connections.
const ownDescriptors = 32 + minLingerConns

// maxAdminConns is the maximum number of connections to the admin listener, from operators,
// scrapers and probes.
const maxAdminConns = 64

// AdminConns returns the maximum number of connections to the admin listener. It is small even if
// many descriptors are available, because any client that reaches the port can open connections.
func AdminConns() int { return adminConns(descriptors()) }

// Descriptors returns the maximum number of open descriptors of the process, or 0 if it is unknown.
func Descriptors() int { return descriptors() }

func adminConns(limit int) int {
	if limit > 0 {
		return min(maxAdminConns, max(4, limit/16))
	}
	return maxAdminConns
}

// AffordableConns returns how many client connections the process can afford: wanted, or fewer if
// the descriptor limit requires it. Each client connection may need a connection to an engine.
// others is the number of other descriptors that are needed, such as one for the probe of each
// engine.
//
// Lingering connections and admin connections need descriptors as well. If the process had no free
// descriptors, it could neither accept clients nor reach engines for clients that it has accepted.
func AffordableConns(wanted, others int) int { return affordableConns(wanted, others, descriptors()) }

func affordableConns(wanted, others, limit int) int {
	// Each connection needs two descriptors, and lingering connections need additional descriptors
	// (SetMax).
	admin := adminConns(limit)
	spare := limit - ownDescriptors - others - admin - admin/4
	if n := max(spare*4/9, (spare-maxLingerConns)/2); limit > 0 && n < wanted {
		return max(n, 1)
	}
	return wanted
}

// lingerConns returns how many connections may linger: at most half of the descriptors that are
// left if conns connections are open.
func lingerConns(conns, limit int) int {
	if limit == 0 {
		return topLingerConns
	}
	left := limit - ownDescriptors - 2*conns
	return min(topLingerConns, max(maxLingerConns, left/2))
}
