//go:build testing

package upstreams

func reportBug(what string) { panic("BUG: " + what) }

const testingBuild = true
