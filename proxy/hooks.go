package proxy

import (
	"slices"
	"time"

	"penstock/config"
	"penstock/proxy/operate/status"
	"penstock/proxy/request/hook"
	"penstock/proxy/running/reload"
)

// hooksOf returns a function that lists the hooks of the running configuration that gave no decision
// on some calls of the last minute, for operators.
func hooksOf(r *reload.Reloader, hooks *hook.Client) func(now time.Time) []status.Hook {
	return func(now time.Time) (all []status.Hook) {
		for _, u := range hooks.Undecided(now) {
			list := r.Running().Config.Hooks
			i := slices.IndexFunc(list, func(h config.Hook) bool { return h.Name == u.Hook })
			if i < 0 {
				continue
			}
			all = append(all, status.Hook{
				Name: u.Hook, Calls: u.Asked, Undecided: u.Failed, Cause: string(u.Last.Cause), Detail: string(u.Last.Detail), Words: u.Last.Detail.Words(), Open: list[i].OnError == config.HookOpen,
			})
		}
		return all
	}
}
