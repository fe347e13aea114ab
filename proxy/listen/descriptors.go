package listen

// ownDescriptors is what the process needs besides the connections of clients and calls: listeners, watches, the log, a few
// files at a reload, and the least that may linger.
const ownDescriptors = 32 + lingerLeast

// operators is how many connections the admin listener may have: for those who look, scrape and probe.
const operators = 64

// ForOperators returns how many connections the admin listener may have. They are few even where descriptors are not: anyone
// who reaches the port can open one.
func ForOperators() int { return forOperators(descriptors()) }

func forOperators(limit int) int {
	if limit > 0 {
		return min(operators, max(4, limit/16))
	}
	return operators
}

// Affordable returns how many connections of clients a process can hold beside others descriptors for its own purposes (one
// for each engine's probe), with an engine's connection for every one of them, room for those that linger, and the operators'
// (ForOperators). It is the wanted number, or less when the limit on descriptors asks for it: past that limit nothing could be accepted, and, worse,
// no engine could be reached for those who are in.
func Affordable(wanted, others int) int { return affordable(wanted, others, descriptors()) }

func affordable(wanted, others, limit int) int {
	// Two for each connection, and those that linger (New).
	admin := forOperators(limit)
	spare := limit - ownDescriptors - others - admin - admin/4
	if n := max(spare*4/9, (spare-lingerConns)/2); limit > 0 && n < wanted {
		return max(n, 1)
	}
	return wanted
}
