package config

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"
)

// largeConfig returns a configuration with many keys and upstreams. A reload may take 50 ms with
// 1,000 keys and 200 upstreams, or a second with 10,000 keys and 1,000 upstreams.
func largeConfig(keys, upstreams int) []byte {
	var b bytes.Buffer
	b.WriteString("keys:\n")
	for i := range keys {
		fmt.Fprintf(&b, "  - id: team-%d\n    hash: sha256:%x\n    limits: { requests_per_minute: 600, concurrency: 20 }\n", i, sha256.Sum256(fmt.Append(nil, i)))
	}
	b.WriteString("upstreams:\n")
	for i := range upstreams {
		fmt.Fprintf(&b, "  - name: gpu-%d\n    url: http://10.0.%d.%d:8000\n    engine: vllm\n    concurrency: 32\n", i, i/256, i%256)
	}
	b.WriteString("models:\n  - id: llama\n    deployments:\n")
	for i := range upstreams {
		fmt.Fprintf(&b, "      - { upstream: gpu-%d, served: meta/llama }\n", i)
	}
	return b.Bytes()
}

func BenchmarkParseValid(b *testing.B) {
	for _, size := range []struct{ keys, upstreams int }{{1000, 200}, {10_000, 1000}} {
		b.Run(fmt.Sprintf("%d_keys", size.keys), func(b *testing.B) {
			src := largeConfig(size.keys, size.upstreams)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if f, problems := ParseValid("config.yaml", src, bundledProfiles); f == nil || len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	old, err := Parse("config.yaml", largeConfig(1000, 200))
	if err != nil {
		b.Fatal(err)
	}
	next, err := Parse("config.yaml", largeConfig(1000, 201))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(Diff(old, next)) != 2 {
			b.Fatal("not two changes")
		}
	}
}
