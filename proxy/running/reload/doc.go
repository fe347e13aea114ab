// Package reload replaces the running configuration. It reads the file, checks the changes, and
// replaces the snapshot that requests use (package snapshot).
//
// # Steps
//
//	Trigger, Run    a changed file, SIGHUP or new addresses request a reload (triggers.go)
//	Reload          performs one reload, from its Request to its Result; operators wait for it
//	loadFileAndApplyKeys        reads the file and, if the file is valid, applies its keys (keys.go)
//	applySettings   checks the other changes, and that no model loses its capacity (models.go)
//	UseSharedKeys   applies keys from the fleet's store, in addition to the file's keys
//	applyCandidate  applies upstreams, queues and models, either all of them or none
//
// # Design
//
// The keys in a valid file are applied first, in a separate snapshot. A key change must not wait
// for DNS, for engine probes or for other reloads. A revoked key stays revoked even if the models
// in the file are rejected.
//
// The new snapshot is complete before anything changes. A reload is rejected if a model would lose
// the last engine that accepts its calls, unless the operator forces the reload. Before this check,
// new upstreams are probed (capacity_diff.go). If a reload fails, nothing but the keys has changed.
//
// A file that equals the running configuration creates no new version, so a file watcher and a
// signal may both report the same change. If a file changes again while its reload waits for
// another reload, the waiting reload is abandoned (errSuperseded). An operator who is waiting gets
// the result for the newest file.
//
// The previous configuration stays in memory, so that an operator can restore it (Request.Back).
// Its keys are not restored.
//
// During a reload, GOMAXPROCS is increased by one, so that requests do not wait for the reload
// (process.BoostProcessors).
//
// # Locks
//
// There are three locks:
//
//   - readMu is locked while a file is read and its keys are applied.
//   - reloadMu is locked while the other settings are checked and applied.
//   - swapMu is locked last, while the snapshot is replaced.
//
// readMu and reloadMu are never held at the same time, so keys do not wait for models.
package reload
