package chat

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestSaltsDiffer checks that different salts from a client result in different salts, and that a
// client can never obtain another owner's salt.
func TestSaltsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, owner := range []string{"key a", "key b", "group a", "key a\x00", "key"} {
		for _, salt := range []string{``, `"cache_salt":"",`, `"cache_salt":"x",`, `"cache_salt":"xx",`, `"cache_salt":"x","cache_salt":"x",`, `"cache_salt":null,`} {
			what := fmt.Sprintf("%q %s", owner, salt)
			var told []string
			for range 2 {
				var r Request
				if err := r.Decode([]byte(`{` + salt + `"model":"m","messages":[{"role":"user","content":"Hi"}]}`)); err != nil {
					t.Fatal(err)
				}
				out := r.AppendEngineRequest(nil, &EngineFormat{Served: "m", Salt: CacheSalt{Member: "cache_salt", Owner: owner}})
				var got struct {
					Salt string `json:"cache_salt"`
				}
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatal(err)
				}
				told = append(told, got.Salt)
			}
			if len(told[0]) != 32 || told[0] != told[1] {
				t.Errorf("%s: got the salts %q, want two equal ones of 32 characters", what, told)
			}
			if other, twice := seen[told[0]]; twice {
				t.Errorf("%s and %s have one salt", what, other)
			}
			seen[told[0]] = what
		}
	}
}
