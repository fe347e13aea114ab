package dns

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"testing"
)

// fakeDNS returns the records, addresses and errors that a test sets.
type fakeDNS struct {
	records []*net.SRV
	hosts   map[string][]string
	err     error            // error when looking up the records
	errs    map[string]error // errors when looking up hosts
}

func (d *fakeDNS) resolver() *Resolver {
	return &Resolver{
		SRV: func(context.Context, string) ([]*net.SRV, error) { return slices.Clone(d.records), d.err },
		Host: func(_ context.Context, host string) ([]string, error) {
			if err := d.errs[host]; err != nil {
				return nil, err
			}
			if found := d.hosts[host]; found != nil {
				return slices.Clone(found), nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		},
	}
}

func TestLookupSRV(t *testing.T) {
	twoHosts := map[string][]string{"a.test.": {"10.0.0.2", "10.0.0.1"}, "b.test.": {"::1"}}
	for _, c := range []struct {
		name    string
		records []*net.SRV
		want    map[string]float64 // weight of each address
	}{
		{
			"ports and equal weights",
			[]*net.SRV{{Target: "a.test.", Port: 8000, Weight: 50}, {Target: "b.test.", Port: 9000, Weight: 50}},
			map[string]float64{"10.0.0.1:8000": 1, "10.0.0.2:8000": 1, "[::1]:9000": 1},
		},
		{
			"weights are relative to their mean",
			[]*net.SRV{{Target: "a.test.", Port: 1, Weight: 30}, {Target: "b.test.", Port: 2, Weight: 10}},
			map[string]float64{"10.0.0.1:1": 1.5, "10.0.0.2:1": 1.5, "[::1]:2": 0.5},
		},
		{"no weights", []*net.SRV{{Target: "b.test.", Port: 2}}, map[string]float64{"[::1]:2": 0}},
		{
			"weight 0 beside others",
			[]*net.SRV{{Target: "b.test.", Port: 2}, {Target: "b.test.", Port: 3, Weight: 8}},
			map[string]float64{"[::1]:2": zeroRecordWeight, "[::1]:3": 2},
		},
		{
			"the best priority",
			[]*net.SRV{{Target: "a.test.", Port: 1, Priority: 5}, {Target: "b.test.", Port: 2, Priority: 1}},
			map[string]float64{"[::1]:2": 0},
		},
		{
			"two ports of one host",
			[]*net.SRV{{Target: "b.test.", Port: 2}, {Target: "b.test.", Port: 3}, {Target: "b.test.", Port: 3}},
			map[string]float64{"[::1]:2": 0, "[::1]:3": 0},
		},
		{
			"a host that does not exist",
			[]*net.SRV{{Target: "gone.test.", Port: 1}, {Target: "b.test.", Port: 2}},
			map[string]float64{"[::1]:2": 0},
		},
		{"no service there", []*net.SRV{{Target: ".", Port: 1}}, nil},
		{"port 0", []*net.SRV{{Target: "b.test."}}, nil},
		{"too many", slices.Repeat([]*net.SRV{{Target: "b.test.", Port: 2}}, maxRecords+1), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dns := &fakeDNS{records: c.records, hosts: twoHosts}
			found, err := NewService("_http._tcp.test").LookUp(t.Context(), dns.resolver())
			if (err == nil) != (c.want != nil) || len(found) != len(c.want) {
				t.Fatalf("endpoints = %+v, %v; want %v", found, err, c.want)
			}
			for _, e := range found {
				if want, known := c.want[e.Address]; !known || math.Abs(e.Weight-want) > 1e-9 {
					t.Errorf("endpoint = %+v, want one of %v", e, c.want)
				}
			}
		})
	}
}

// TestLookupSRVHostFails checks that if the look-up of a host fails, its previous addresses are
// returned while the records contain the host.
func TestLookupSRVHostFails(t *testing.T) {
	dns := &fakeDNS{
		records: []*net.SRV{{Target: "a.test.", Port: 1}, {Target: "b.test.", Port: 1}},
		hosts:   map[string][]string{"a.test.": {"10.0.0.1"}, "b.test.": {"10.0.0.2"}}, errs: map[string]error{},
	}
	name, o := NewService("_http._tcp.test"), dns.resolver()
	addresses := func() (out []string) {
		t.Helper()
		found, err := name.LookUp(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			out = append(out, e.Address)
		}
		return out
	}
	both := []string{"10.0.0.1:1", "10.0.0.2:1"}
	if got := addresses(); !slices.Equal(got, both) {
		t.Fatal(got)
	}
	dns.errs["a.test."] = errors.New("the server does not answer")
	dns.hosts["b.test."] = []string{"10.0.0.3"}
	if got := addresses(); !slices.Equal(got, []string{"10.0.0.1:1", "10.0.0.3:1"}) {
		t.Errorf("a host failed: %q", got)
	}
	dns.records = dns.records[1:]
	if got := addresses(); !slices.Equal(got, []string{"10.0.0.3:1"}) {
		t.Errorf("a record went away: %q", got)
	}
}
