package proxy

import (
	"testing"

	"penstock/config"
)

// TestStoreOptions checks that sentinels are used instead of the store's address, with or without a
// URL.
func TestStoreOptions(t *testing.T) {
	sentinels := config.FleetSentinel{Master: "m", Addresses: []string{"s:26379"}}
	insecure := config.UpstreamTLS{Insecure: true}
	for name, c := range map[string]struct {
		store   config.FleetStore
		address string
		tls     bool
		host    string // the name in the certificate; if empty, the dialled name
	}{
		"url":                         {config.FleetStore{URL: "redis://h"}, "h:6379", false, ""},
		"url with a port, TLS":        {config.FleetStore{URL: "rediss://h:1"}, "h:1", true, "h"},
		"sentinels":                   {config.FleetStore{Sentinel: sentinels}, "s:26379", false, ""},
		"sentinels with TLS":          {config.FleetStore{Sentinel: sentinels, TLS: insecure}, "s:26379", true, ""},
		"sentinels beside a url":      {config.FleetStore{URL: "redis://h", Sentinel: sentinels}, "s:26379", false, ""},
		"sentinels beside a TLS name": {config.FleetStore{URL: "rediss://h", Sentinel: sentinels}, "s:26379", true, "h"},
	} {
		o, err := storeOptions(&c.store)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(o.Addresses) != 1 || o.Addresses[0] != c.address || (o.TLS != nil) != c.tls || o.TLS != nil && o.TLS.ServerName != c.host {
			t.Errorf("%s: %q, TLS %+v", name, o.Addresses, o.TLS)
		}
	}
}
