// Package reload replaces the running configuration: it reads the file, checks what the file would
// change, and replaces the snapshot that requests use (package snapshot).
//
// # Steps
//
//	Trigger, Run   a changed file, SIGHUP or new addresses request a reload (triggers.go)
//	Reload         one reload from its Request to its Result; an operator waits for it
//	readKeys       reads the file; if it is valid, its keys are in force from here on (keys.go)
//	judge          what else does the file change, and does a model lose its capacity (models.go)
//	UseShared      puts keys of the fleet's store into force, in addition to the file's keys
//	apply, commit  put all of upstreams, queues and models into force, or none of them
//
// # Design
//
// The keys of a valid file come into force first, in a snapshot of their own. A change of keys must
// not wait for name lookups, for engine probes or for other reloads, and a revoked key stays
// revoked even if the file's models are refused.
//
// A snapshot is complete before anything changes. A reload is refused if a model that can serve
// calls now would then have no engine to take them, unless the operator forces the reload. Before
// that decision, upstreams that only the new file has are probed, although they are not in use yet
// (capacity_diff.go). After an error or a problem the running configuration stays in force, except
// for the keys.
//
// A file that equals the running configuration creates no new version, so a watcher and a signal
// may report the same change. If a file is replaced while its reload waits for another reload, the
// waiting reload ends without a result of its own (errSuperseded). An operator who waits gets the
// result of the newest file.
//
// The configuration before the running one is kept in memory, so that an operator can go back to it
// (Request.Back). Its keys are not restored, and the running keys stay in force.
//
// During a reload GOMAXPROCS is higher by one, so that requests share a core with the reload and
// never wait for it (process.Boost).
//
// Models that engines list (`discover`) are added to the running file by a reload like the reload
// for changed addresses. It reads no file, and builds a snapshot from the running file and the
// lists.
//
// # Locks
//
// Three locks are taken in this order: reading (a file is read and its keys come into force),
// reloading (the other settings are checked and come into force), and swapping (one snapshot
// replaces another). reading and reloading are never held together, so keys do not wait for models.
//
// Package proxy makes the Reloader. The hooks in Options change what depends on the configuration
// besides the snapshot: memory limits, the log, connections.
package reload
