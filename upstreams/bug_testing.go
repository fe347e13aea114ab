//go:build testing

package upstreams

func panicIfTesting(what string) { panic("BUG: " + what) }

const testingBuild = true
