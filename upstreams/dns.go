package upstreams

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Bounds of an SRV answer, whatever a name server sends.
const (
	maxSRVRecords = 1000
	maxSRVTargets = 100 // distinct names of hosts
)

// least is what a record of weight 0 counts beside others, of the mean: RFC 2782 gives it a very
// small chance.
const least = 0.01

// lookupHost returns the addresses of a name, sorted.
func lookupHost(ctx context.Context, o *Options, host string) ([]endpoint, error) {
	found, err := o.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	out := make([]endpoint, 0, len(found))
	for _, address := range slices.Compact(found) {
		out = append(out, endpoint{key: address, label: address, address: address})
	}
	return out, nil
}

// srvName looks up the SRV records of a name, and the addresses of the hosts that they name.
type srvName struct {
	name  string
	hosts map[string][]string // the last addresses of the hosts of the last answer
}

// lookup returns every address of the records of the best priority, sorted. A host whose look-up
// fails keeps the addresses that it had. One that does not exist is left out.
func (n *srvName) lookup(ctx context.Context, o *Options) ([]endpoint, error) {
	records, err := o.LookupSRV(ctx, n.name)
	if err != nil {
		return nil, err
	}
	records = slices.DeleteFunc(records, func(r *net.SRV) bool { return r.Port == 0 || r.Target == "." })
	if len(records) == 0 || len(records) > maxSRVRecords {
		return nil, errors.New("the name has no service, or too many")
	}
	best := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	records = slices.DeleteFunc(records, func(r *net.SRV) bool { return r.Priority != best })
	if err := n.lookupHosts(ctx, o, records); err != nil {
		return nil, err
	}
	mean := 0.0
	for _, r := range records {
		mean += float64(r.Weight) / float64(len(records))
	}
	var out []endpoint
	for _, r := range records {
		weight := 0.0 // the same for all
		if mean > 0 {
			weight = max(least, float64(r.Weight)/mean)
		}
		for _, ip := range n.hosts[r.Target] {
			address := net.JoinHostPort(ip, strconv.Itoa(int(r.Port)))
			out = append(out, endpoint{key: address, label: address, address: address, weight: weight})
		}
	}
	slices.SortFunc(out, func(a, b endpoint) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(b.weight, a.weight))
	})
	return slices.CompactFunc(out, func(a, b endpoint) bool { return a.key == b.key }), nil
}

// lookupHosts renews the addresses of the hosts that the records name.
func (n *srvName) lookupHosts(ctx context.Context, o *Options, records []*net.SRV) error {
	hosts := map[string][]string{}
	for _, r := range records {
		if _, done := hosts[r.Target]; done {
			continue
		}
		if len(hosts) == maxSRVTargets {
			return errors.New("the name has services on too many hosts")
		}
		found, err := o.Lookup(ctx, r.Target)
		gone, notFound := errors.AsType[*net.DNSError](err)
		if err != nil && !(notFound && gone.IsNotFound) {
			found = n.hosts[r.Target]
		}
		hosts[r.Target] = found
	}
	n.hosts = hosts
	return nil
}
