// Package dns finds the engines behind a DNS name. It looks up the name's addresses, or the hosts,
// ports and weights in its SRV records.
package dns

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Limits of an SRV response, because the name server may be hostile.
const (
	maxRecords = 1000
	maxHosts   = 100 // distinct host names in the records
)

// zeroRecordWeight is the weight of a record whose SRV weight is 0, relative to the mean weight.
// According to RFC 2782, such a record has a very small chance of being selected.
const zeroRecordWeight = 0.01

// Resolver contains the functions that perform the look-ups.
type Resolver struct {
	Host func(ctx context.Context, name string) ([]string, error)
	SRV  func(ctx context.Context, name string) ([]*net.SRV, error)
}

// ServiceEndpoint is one address of a service.
type ServiceEndpoint struct {
	Address string  // includes the port if the endpoint comes from an SRV record
	Weight  float64 // relative to the mean weight of the records; 0 if not set
}

// Name is a DNS name that is looked up repeatedly.
type Name interface {
	// LookUp performs one look-up. The endpoints are sorted by address.
	LookUp(ctx context.Context, r *Resolver) ([]ServiceEndpoint, error)
	// String describes the query.
	String() string
}

// Host is a Name with address records.
type Host string

// LookUp implements Name.
func (n Host) LookUp(ctx context.Context, r *Resolver) ([]ServiceEndpoint, error) {
	found, err := r.Host(ctx, string(n))
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	out := make([]ServiceEndpoint, 0, len(found))
	for _, address := range slices.Compact(found) {
		out = append(out, ServiceEndpoint{Address: address})
	}
	return out, nil
}

// String implements Name.
func (n Host) String() string { return "DNS " + string(n) }

// Service is a Name with SRV records. LookUp also looks up the hosts in the records. A Service is
// not safe for concurrent use.
type Service struct {
	name          string
	lastAddresses map[string][]string // last known addresses of the hosts in the last response
}

// NewService returns a Service for a DNS name.
func NewService(name string) *Service { return &Service{name: name} }

// String implements Name.
func (n *Service) String() string { return "SRV " + n.name }

// LookUp implements Name. It returns all addresses of the hosts in the records that have the best
// priority. If the look-up of a host fails, its previous addresses are returned. A host that does
// not exist is omitted.
func (n *Service) LookUp(ctx context.Context, r *Resolver) ([]ServiceEndpoint, error) {
	records, err := r.SRV(ctx, n.name)
	if err != nil {
		return nil, err
	}
	records = slices.DeleteFunc(records, func(r *net.SRV) bool { return r.Port == 0 || r.Target == "." })
	if len(records) == 0 || len(records) > maxRecords {
		return nil, errors.New("the name has no service, or too many")
	}
	best := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	records = slices.DeleteFunc(records, func(r *net.SRV) bool { return r.Priority != best })
	if err := n.lookupHosts(ctx, r, records); err != nil {
		return nil, err
	}
	mean := 0.0
	for _, r := range records {
		mean += float64(r.Weight) / float64(len(records))
	}
	var out []ServiceEndpoint
	for _, r := range records {
		weight := 0.0 // all weights are equal
		if mean > 0 {
			weight = max(zeroRecordWeight, float64(r.Weight)/mean)
		}
		for _, ip := range n.lastAddresses[r.Target] {
			out = append(out, ServiceEndpoint{net.JoinHostPort(ip, strconv.Itoa(int(r.Port))), weight})
		}
	}
	slices.SortFunc(out, func(a, b ServiceEndpoint) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), cmp.Compare(b.Weight, a.Weight))
	})
	return slices.CompactFunc(out, func(a, b ServiceEndpoint) bool { return a.Address == b.Address }), nil
}

// lookupHosts updates the addresses of the records' hosts.
func (n *Service) lookupHosts(ctx context.Context, resolver *Resolver, records []*net.SRV) error {
	hosts := map[string][]string{}
	for _, r := range records {
		if _, done := hosts[r.Target]; done {
			continue
		}
		if len(hosts) == maxHosts {
			return errors.New("the name has services on too many hosts")
		}
		found, err := resolver.Host(ctx, r.Target)
		gone, notFound := errors.AsType[*net.DNSError](err)
		if err != nil && !(notFound && gone.IsNotFound) {
			found = n.lastAddresses[r.Target]
		}
		hosts[r.Target] = found
	}
	n.lastAddresses = hosts
	return nil
}
