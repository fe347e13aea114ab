package translate

// PrivateDNSSuffixes are the domains that only private networks, data centres and clusters use: those
// of RFC 6761, RFC 6762 (appendix G) and RFC 8375, ICANN's .internal, and .svc of Kubernetes.
var PrivateDNSSuffixes = []string{
	"corp", "home", "home.arpa", "internal", "intra", "intranet", "lan", "local", "localdomain", "localhost", "private", "svc",
}
