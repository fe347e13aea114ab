package config

// Fleet says how many edges serve the same keys and engines. They share nothing, so each takes an
// equal part of every number that they share: the limits of keys and the slots of engines.
type Fleet struct {
	Edges int `yaml:"edges"` // default 1
}

// ShareOf returns one edge's part of a number that a fleet shares: rounded down, so that the parts
// do not add up to more, but at least 1, or an edge would serve nothing. 0, which is no limit, stays
// 0; a fleet of 0 or 1 edges leaves n as it is.
func ShareOf(n, edges int) int {
	if n <= 0 || edges <= 1 {
		return n
	}
	return max(1, n/edges)
}

// Share returns the part of the limits that each of a key's edges allows.
func (k *Key) Share() KeyLimits {
	l := k.Limits
	return KeyLimits{
		RequestsPerMinute: ShareOf(l.RequestsPerMinute, k.Edges),
		TokensPerMinute:   ShareOf(l.TokensPerMinute, k.Edges),
		Concurrency:       ShareOf(l.Concurrency, k.Edges),
	}
}

// fleet checks the number of edges, and warns of numbers that are too small to be shared by them.
func (c processChecks) fleet() {
	edges := c.file.Fleet.Edges
	c.check.number("fleet.edges", edges, 1, maxEdges)
	for i := range c.file.Keys {
		l, at := &c.file.Keys[i].Limits, element("keys", i)+".limits"
		c.indivisible(at, edges, member{"requests_per_minute", l.RequestsPerMinute},
			member{"tokens_per_minute", l.TokensPerMinute}, member{"concurrency", l.Concurrency})
	}
	for i := range c.file.Upstreams {
		p, at := c.file.Upstreams[i].Concurrency, element("upstreams", i)
		c.indivisible(at, edges, member{"concurrency", p.Shared})
		c.indivisible(at+".concurrency", edges, member{"text", p.Text}, member{"vision", p.Vision},
			member{"audio", p.Audio})
	}
}

// maxEdges is far above any fleet, so that a slip of the finger is seen.
const maxEdges = 1000

func (c processChecks) indivisible(path string, edges int, numbers ...member) {
	for _, m := range numbers {
		if m.n > 0 && m.n < edges {
			c.check.warn(path+"."+m.key, "%d is less than the %d edges of the fleet, and each of them allows at least 1: "+
				"the fleet allows up to %d", m.n, edges, edges)
		}
	}
}
