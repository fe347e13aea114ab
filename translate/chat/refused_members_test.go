package chat

import (
	"fmt"
	"strings"
	"testing"

	"penstock/translate/jsonx"
)

// TestRefusedMembersByTheirFirstBytes checks that CheckMembers, which excludes most names by their
// first two bytes, has the same result as a comparison of every name with every pattern.
func TestRefusedMembersByTheirFirstBytes(t *testing.T) {
	patterns := []string{"rid", "bootstrap_*", "b*", "id_slot", "kv_transfer_params", "*", "*foo", "", "e", "E_x", "extra.inner", "o.in", "cache_*"}
	names := []string{"", "x", "X-a", "x-", "x_", "o", "e", "b", "\\u0078-a", "\u017fpeed", "\\u017fpeed", "\u212av_transfer_params", "é", "extra", "Extra"}
	names = append(append(names, patterns...), memberNames...)
	for _, m := range harmfulHostedMembers {
		names = append(names, m.name)
	}
	for _, n := range names[:len(names):len(names)] {
		names = append(names, strings.ToUpper(n), n+"a")
		if len(n) > 1 {
			names = append(names, n[:1], n[:2], n[:1]+"\\u00"+fmt.Sprintf("%x", n[1])+n[2:], strings.ToUpper(n[:1])+n[1:])
		}
	}
	var doc jsonx.Doc
	for i := range patterns {
		one := NewRefusedMembers(patterns[i])
		for _, r := range []*RefusedMembers{
			nil,
			{},
			one, one.ForHostedEngine(), (*RefusedMembers)(nil).ForHostedEngine(), one.WithAllowed(patterns[i]),
			NewRefusedMembers(patterns[i:]...), NewRefusedMembers(patterns[:i]...).ForHostedEngine().WithAllowed("speed"),
		} {
			for _, name := range names {
				if doc.Parse([]byte(`{"`+name+`":{"inner":1,"in":2}}`), jsonx.Options{}) != nil {
					continue
				}
				it := doc.Root().Iter()
				it.Next()
				_, found := r.matchKey(it.Key())
				want := found || r.findNestedName(it.Key(), it.Value()) != "" || r.checkHostedMember(it.Key(), it.Value()) != nil
				if got := r.CheckMembers(doc.Root()) != nil; got != want {
					t.Errorf("%q with the patterns from %q on: refused %v, want %v", name, patterns[i], got, want)
				}
			}
		}
	}
}
