package guard

// The places that catch panics, as label values of penstock_panics_total. Each comment says what a
// panic there costs.
const (
	PlaceHandler    = "handler"    // the request, which gets a 500 in its dialect; a call's connection closes
	PlaceAdmin      = "admin"      // the operator's request, which gets a 500
	PlaceConnection = "connection" // the request, which gets an error, or the connection
	PlaceStream     = "stream"     // the stream, which breaks off
	PlaceShadow     = "shadow"     // the copy of one call
	PlaceCopies     = "copies"     // the copies of calls that were being sent; they count as lost
	// The remaining accounting of one call, after its slot, limits and memory are released.
	PlaceEnd        = "end"
	PlaceStatusPage = "status_page" // the page's connection; its script reconnects
	PlaceWebSocket  = "websocket"   // the connection, which closes with 1011
	PlaceAccept     = "accept"      // one accept; the accept loop restarts
	// One round of the client watch, or the notification that a client has disconnected.
	PlaceClients = "clients"
	PlaceLinger  = "linger" // reading the remaining body of one client
	// One probe; in a reload, the check of one upstream, whose result is then unknown.
	PlaceProbe = "probe"
	PlaceStall = "stall" // one check of an engine's counters
	// One generation probe; its slot is released, and the breaker does not change.
	PlaceGeneration = "generation"
	PlaceAddresses  = "addresses" // one discovery of endpoints; the previous results stay in use
	PlaceNames      = "names"     // one DNS look-up; the previous addresses stay in use
	PlaceEngines    = "engines"   // one check of idle connections, or one write or probe cut short
	PlaceEngineWake = "wake"      // one request that wakes a sleeping engine
	// One wake-up of waiting calls, or one trial; later wake-ups and trials follow.
	PlaceQueueWakeup = "room"
	PlaceReload      = "reload"   // one reload, or one SIGHUP
	PlaceFiles       = "files"    // one check of the watched files
	PlaceHistory     = "history"  // one second of the status page's history
	PlaceLog         = "log"      // the lines of one write; they count as dropped
	PlaceSpans       = "spans"    // one batch of spans; they count as dropped
	PlaceWatchdog    = "watchdog" // one watchdog message
	PlaceShutdown    = "shutdown" // ending a drain early; the drain itself and SIGQUIT still work
	PlaceFleet       = "fleet"    // one round of the fleet's work
	PlaceLedger      = "ledger"   // one round of the ledger's work
	PlaceIssuers     = "issuers"  // one fetch of an issuer's keys
	// One round of renewals, one order, or one challenge request, which gets a 500.
	PlaceACME = "acme"
)

var panicPlaces = []string{
	PlaceHandler, PlaceAdmin, PlaceConnection, PlaceStream, PlaceShadow, PlaceCopies, PlaceWebSocket, PlaceEnd, PlaceStatusPage, PlaceAccept, PlaceClients, PlaceLinger, PlaceProbe,
	PlaceStall, PlaceGeneration, PlaceAddresses, PlaceNames, PlaceEngines, PlaceEngineWake, PlaceQueueWakeup, PlaceReload, PlaceFiles, PlaceHistory, PlaceLog, PlaceSpans, PlaceWatchdog, PlaceShutdown,
	PlaceFleet, PlaceLedger, PlaceIssuers, PlaceACME,
}

// PanicPlaces returns every place, in a fixed order.
func PanicPlaces() []string { return panicPlaces }
