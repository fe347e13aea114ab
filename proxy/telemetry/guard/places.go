package guard

// The places at which a panic is caught, as the label of penstock_panics_total. doc.go says what
// each loses.
const (
	Handler    = "handler"
	Admin      = "admin"
	Connection = "connection"
	Stream     = "stream"
	Shadow     = "shadow"
	End        = "end"
	StatusPage = "status_page"
	WebSocket  = "websocket"
	Accept     = "accept"
	Clients    = "clients"
	Linger     = "linger"
	Probe      = "probe"
	Stall      = "stall"
	Generation = "generation"
	Addresses  = "addresses"
	Names      = "names"
	Engines    = "engines"
	Wake       = "wake"
	Room       = "room"
	Reload     = "reload"
	Files      = "files"
	History    = "history"
	Log        = "log"
	Spans      = "spans"
	Watchdog   = "watchdog"
	Shutdown   = "shutdown"
	Fleet      = "fleet"
	Ledger     = "ledger"
	Issuers    = "issuers"
	ACME       = "acme"
)

var places = []string{
	Handler, Admin, Connection, Stream, Shadow, WebSocket, End, StatusPage, Accept, Clients, Linger, Probe,
	Stall, Generation, Addresses, Names, Engines, Wake, Room, Reload, Files, History, Log, Spans, Watchdog, Shutdown,
	Fleet, Ledger, Issuers, ACME,
}

// Places returns every place, in a fixed order.
func Places() []string { return places }
