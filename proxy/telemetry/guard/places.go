package guard

// The places at which a panic is caught, as values of the label of penstock_panics_total. The
// comment beside each place says what a panic there costs.
const (
	Handler    = "handler"     // the request: 500 in its dialect; a call also loses its connection
	Admin      = "admin"       // the operator's request: 500
	Connection = "connection"  // the request: an error, or the connection
	Stream     = "stream"      // the stream, which is cut
	Shadow     = "shadow"      // the copy of one call
	Copies     = "copies"      // the copies of calls that were being sent, counted as lost
	End        = "end"         // the rest of one call's accounting; slot, key and memory are free
	StatusPage = "status_page" // the page's connection; its script reconnects
	WebSocket  = "websocket"   // the connection: 1011
	Accept     = "accept"      // one accept; accepting starts again
	Clients    = "clients"     // one round of the watch, or the notice that one client has disconnected
	Linger     = "linger"      // the rest of one client's body
	Probe      = "probe"       // one probe; in a reload, the check of one upstream, whose result is then unknown
	Stall      = "stall"       // one check of an engine's counters
	Generation = "generation"  // one generation probe; its slot is freed, the breaker stays as it is
	Addresses  = "addresses"   // one look-up; the previous answers stay
	Names      = "names"       // one look-up; the previous addresses stay
	Engines    = "engines"     // one check of idle connections, or the early end of one write or probe
	Wake       = "wake"        // one request for a sleeping engine
	Room       = "room"        // one wake-up of waiting calls, or one trial; the next freed slot or failure brings another
	Reload     = "reload"      // one reload, or one SIGHUP
	Files      = "files"       // one check of the files
	History    = "history"     // one second of the page's history
	Log        = "log"         // the lines of one write, counted as dropped
	Spans      = "spans"       // one batch of spans, counted as dropped
	Watchdog   = "watchdog"    // one watchdog message
	Shutdown   = "shutdown"    // the shortening of a drain, which ends anyway; SIGQUIT still ends the process
	Fleet      = "fleet"       // one round of the fleet's work
	Ledger     = "ledger"      // one round of the ledger's work
	Issuers    = "issuers"     // one fetch of an issuer's keys
	ACME       = "acme"        // one round of renewals or one order; for a challenge its request: 500
)

var places = []string{
	Handler, Admin, Connection, Stream, Shadow, Copies, WebSocket, End, StatusPage, Accept, Clients, Linger, Probe,
	Stall, Generation, Addresses, Names, Engines, Wake, Room, Reload, Files, History, Log, Spans, Watchdog, Shutdown,
	Fleet, Ledger, Issuers, ACME,
}

// Places returns every place, in a fixed order.
func Places() []string { return places }
