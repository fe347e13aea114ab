package config_test

import (
	"fmt"
	"strings"

	"penstock/config"
)

// One run reports all mistakes in a file and the position of each.
func ExampleParseValid() {
	const src = `
keys:
  - id: team-a
    hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
upstreams:
  - name: gpu-a
    url: http://10.0.0.11:8000
    wieght: 2
    probe: { interval: 5 }
models:
  - id: llama
    deployments: [{ upstream: gpu-b }]
`
	_, problems := config.ParseValid("penstock.yaml", []byte(src), config.KnownProfiles{Engines: []string{"vllm"}})
	fmt.Println(problems)
	// Output:
	// penstock.yaml:8:5: unknown key "wieght": did you mean "weight"? (upstreams[0].wieght)
	//     8 |     wieght: 2
	//       |     ^
	// penstock.yaml:9:24: "5" is not a duration: write a number with a unit, such as 250ms, 10s or 5m (upstreams[0].probe.interval)
	//     9 |     probe: { interval: 5 }
	//       |                        ^
	// penstock.yaml:12:31: there is no upstream "gpu-b": did you mean "gpu-a"? (models[0].deployments[0].upstream)
	//    12 |     deployments: [{ upstream: gpu-b }]
	//       |                               ^
}

// Diff identifies entries by name and does not show values.
func ExampleDiff() {
	old, _ := config.Parse("penstock.yaml", config.Example())
	next, _ := config.Parse("penstock.yaml", []byte(strings.NewReplacer("weight: 1", "weight: 2", ":4000", ":4001").Replace(string(config.Example()))))
	for _, change := range config.Diff(old, next) {
		fmt.Println(change)
	}
	// Output:
	// changed listen (takes effect after a restart)
	// changed upstreams[gpu-a].weight
}
