package listen

// reservedDescriptors is the number of descriptors that the process needs in addition to its
// connections. These descriptors are for listeners, watches, the log, files during a reload, and
// the minimum number of lingering connections.
const reservedDescriptors = 32 + minLingerConns

// maxAdminConns is the maximum number of connections from operators, scrapers and probes to the
// admin listener.
const maxAdminConns = 64

// AdminConnLimit returns the maximum number of connections to the admin listener. It is small even
// if many descriptors are available, because anyone who reaches the port can open connections.
func AdminConnLimit() int { return adminConnLimit(descriptorLimit()) }

// DescriptorLimit returns the maximum number of open descriptors for the process, or 0 if it is
// unknown.
func DescriptorLimit() int { return descriptorLimit() }

func adminConnLimit(limit int) int {
	if limit > 0 {
		return min(maxAdminConns, max(4, limit/16))
	}
	return maxAdminConns
}

// AffordableConns returns how many client connections the process can have: wanted, or fewer if the
// descriptor limit requires it. Each client connection may need another connection to an engine.
// others is the number of other descriptors needed, such as one for the probe of each engine.
//
// Lingering connections and admin connections also need descriptors. Without free descriptors, the
// process could neither accept clients nor connect accepted clients to engines.
func AffordableConns(wanted, others int) int {
	return affordableConns(wanted, others, descriptorLimit())
}

func affordableConns(wanted, others, limit int) int {
	// Each connection needs two descriptors, and lingering connections need additional descriptors
	// (SetMaxConns).
	admin := adminConnLimit(limit)
	spare := limit - reservedDescriptors - others - admin - admin/4
	if n := max(spare*4/9, (spare-defaultLingerConns)/2); limit > 0 && n < wanted {
		return max(n, 1)
	}
	return wanted
}

// lingerConnLimit returns how many connections may linger. It is at most half of the descriptors
// left when conns connections are open.
func lingerConnLimit(conns, limit int) int {
	if limit == 0 {
		return ampleLingerConns
	}
	left := limit - reservedDescriptors - 2*conns
	return min(ampleLingerConns, max(defaultLingerConns, left/2))
}
