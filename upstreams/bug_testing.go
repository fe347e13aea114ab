//go:build testing

package upstreams

func bug(what string) { panic("BUG: " + what) }

const testingBuild = true
