package guard

// The places that catch panics, as label values of penstock_panics_total. Each comment says what a
// panic there costs.
const (
	Handler    = "handler"     // the request, which gets a 500 in its dialect; a call's connection closes
	Admin      = "admin"       // the operator's request, which gets a 500
	Connection = "connection"  // the request, which gets an error, or the connection
	Stream     = "stream"      // the stream, which breaks off
	Shadow     = "shadow"      // the copy of one call
	Copies     = "copies"      // the copies of calls that were being sent; they count as lost
	End        = "end"         // the remaining accounting of one call, after its slot, limits and memory are released
	StatusPage = "status_page" // the page's connection; its script reconnects
	WebSocket  = "websocket"   // the connection, which closes with 1011
	Accept     = "accept"      // one accept; the accept loop restarts
	Clients    = "clients"     // one round of the client watch, or the notification that a client has disconnected
	Linger     = "linger"      // reading the remaining body of one client
	Probe      = "probe"       // one probe; in a reload, the check of one upstream, whose result is then unknown
	Stall      = "stall"       // one check of an engine's counters
	Generation = "generation"  // one generation probe; its slot is released, and the breaker does not change
	Addresses  = "addresses"   // one look-up; the previous results stay in use
	Names      = "names"       // one look-up; the previous addresses stay in use
	Engines    = "engines"     // one check of idle connections, or the early end of one write or probe
	Wake       = "wake"        // one request that wakes a sleeping engine
	Room       = "room"        // one wake-up of waiting calls, or one trial; later wake-ups and trials follow
	Reload     = "reload"      // one reload, or one SIGHUP
	Files      = "files"       // one check of the files
	History    = "history"     // one second of the page's history
	Log        = "log"         // the lines of one write; they count as dropped
	Spans      = "spans"       // one batch of spans; they count as dropped
	Watchdog   = "watchdog"    // one watchdog message
	Shutdown   = "shutdown"    // the early end of a drain; the drain and SIGQUIT still work
	Fleet      = "fleet"       // one round of the fleet's work
	Ledger     = "ledger"      // one round of the ledger's work
	Issuers    = "issuers"     // one fetch of an issuer's keys
	ACME       = "acme"        // one round of renewals, one order, or one challenge request, which gets a 500
)

var places = []string{
	Handler, Admin, Connection, Stream, Shadow, Copies, WebSocket, End, StatusPage, Accept, Clients, Linger, Probe,
	Stall, Generation, Addresses, Names, Engines, Wake, Room, Reload, Files, History, Log, Spans, Watchdog, Shutdown,
	Fleet, Ledger, Issuers, ACME,
}

// Places returns every place, in a fixed order.
func Places() []string { return places }
