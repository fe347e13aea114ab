package listen

// ownDescriptors is what the process needs besides the connections of clients and calls: listeners, watches, the log, a few
// files at a reload, and the least that may linger.
const ownDescriptors = 32 + lingerLeast

// Affordable returns how many connections of clients a process can hold beside others descriptors for its own purposes (one
// for each engine's probe), with an engine's connection for every one of them and room for those that linger. It is the
// wanted number, or less when the limit on descriptors asks for it: past that limit nothing could be accepted, and, worse,
// no engine could be reached for those who are in.
func Affordable(wanted, others int) int { return affordable(wanted, others, descriptors()) }

func affordable(wanted, others, limit int) int {
	// Two for each connection, and those that linger (New).
	spare := limit - ownDescriptors - others
	if n := max(spare*4/9, (spare-lingerConns)/2); limit > 0 && n < wanted {
		return max(n, 1)
	}
	return wanted
}
