package proxy

import (
	"slices"
	"time"

	"penstock/config"
	"penstock/proxy/operate/status"
	"penstock/proxy/request/hook"
	"penstock/proxy/request/hook/copies"
	"penstock/proxy/running/reload"
)

// recentlyUndecidedHooks lists the hooks that returned no decision for some calls in the last minute.
func recentlyUndecidedHooks(r *reload.Reloader, hooks *hook.Client) func(now time.Time) []status.Hook {
	return func(now time.Time) (all []status.Hook) {
		for _, u := range hooks.RecentFailures(now) {
			list := r.RunningSnapshot().Config.Hooks
			i := slices.IndexFunc(list, func(h config.Hook) bool { return h.Name == u.Hook })
			if i < 0 {
				continue
			}
			all = append(all, status.Hook{
				Name: u.Hook, Calls: u.Asked, Undecided: u.Failed, Cause: string(u.Last.Cause), Detail: string(u.Last.Detail), Words: u.Last.Detail.Description(), Open: list[i].OnError == config.HookFailOpen,
			})
		}
		return all
	}
}

// hooksWithLostCopies lists the hooks for which copies of calls were lost in the last minute.
func hooksWithLostCopies(r *reload.Reloader, c *copies.CopySinks) func(now time.Time) []status.Copies {
	return func(now time.Time) (all []status.Copies) {
		for _, l := range c.RecentLosses(now) {
			list := r.RunningSnapshot().Config.Hooks
			if slices.ContainsFunc(list, func(h config.Hook) bool { return h.Name == l.Hook && h.After != "" }) {
				all = append(all, status.Copies{Hook: l.Hook, Calls: l.Calls, Lost: l.Lost, Why: l.Why})
			}
		}
		return all
	}
}
