// Package guard catches panics: a fault of ours costs the call or the round of work that met it,
// and never the process with everybody else's calls.
//
// # What a panic costs
//
// The table has a row for every place that starts a goroutine, or has one started, and for every
// place that catches what runs on a goroutine of fasthttp's. A test compares it with the sources,
// so a go statement without a guard does not pass. What is started again, is so after a pause of
// 100 ms, which doubles up to 10 s.
//
//	file and function                                   place        what a panic there costs
//
//	proxy/public_api.go publicAPI.everyRequest          handler      the request: 500 in its dialect's form
//	proxy/request/call/handle.go Services.Handler               handler      the call: 500 in its dialect's form, and the connection
//	proxy/operate/admin/routes.go Server.everyRequest           admin        the operator's request: 500
//	proxy/operate/admin/routes.go Server.headError              admin        the text of an error: 500
//	proxy/precheck.go publicAPI.headReceived            connection   the check before the body; the request goes on
//	proxy/precheck.go publicAPI.expectContinue          connection   the request: 500 before its body is asked for
//	proxy/public_api.go publicAPI.headError             connection   the text of an error: an empty 500
//	proxy/front/httpserver/server.go connState                connection   nothing; a drain may wait longer for the connection
//	proxy/front/listen/listener.go Listener.checkFraming      connection   the connection
//	proxy/request/call/relay.go relay.run                       stream       the stream, which is cut
//	proxy/request/call/relay.go relay.Close                     stream       nothing; the stream has ended
//	proxy/request/call/stream_hijacked.go hijackedStream.takeConn  stream       the stream, before its first byte
//	proxy/request/call/stream_hijacked.go hijackedStream.serve  stream       the stream and its connection
//	proxy/request/call/stream_http10.go http10Stream.takeConn   stream       the stream and its connection
//	proxy/front/listen/detached.go detached.run               stream       starts hijackedStream.serve, which catches
//	proxy/front/listen/detached.go detached.run               websocket  starts session.serve
//	proxy/request/websocket/session.go session.takeConn     websocket  the connection
//	proxy/request/websocket/session.go session.serve        websocket  the connection: 1011
//	proxy/request/websocket/session.go session.tick         websocket  later looks at one connection
//	proxy/request/websocket/calls.go calls.enqueue          websocket  starts calls.work
//	proxy/request/websocket/calls.go calls.runNext          websocket  a call and its connection: 1011
//	proxy/request/websocket/peer.go peer.close              websocket  later closes one connection
//	proxy/request/websocket/peer.go peer.cut                websocket  the same
//	proxy/request/websocket/carrier.go Carrier.Review       websocket  the close of one connection
//	proxy/request/shadow/shadow.go Shadows.Begin                shadow       the copy of one call
//	proxy/request/call/call.go Call.end                         end          what was left to do of the accounting; slot, key and memory are free
//	proxy/operate/admin/page.go Server.statusEvents             status_page  the page's connection; its script comes again
//	proxy/edge.go Edge.Serve                            accept       one accept; accepting starts again
//	proxy/edge.go Edge.Serve                            reload       one reload; started again
//	proxy/edge.go Edge.Serve                            history      one second of the page's history; started again
//	proxy/running/reload/triggers.go Reloader.start             reload       one reload
//	proxy/running/reload/reloader.go Reloader.attempt           reload       one reload, which says so
//	proxy/running/reload/triggers.go Reloader.OnChange          reload       one SIGHUP; started again
//	proxy/running/reload/triggers.go Reloader.OnChange          files        one look at the files; started again
//	proxy/fleet.go Edge.share                           fleet        one round; started again
//	proxy/ledger.go Edge.keepLedger                     ledger       one round; started again
//	proxy/access/auth/jwks/keeper.go Source.begin              issuers      one fetch; started again
//	proxy/certificates.go keepCertificates  acme  one round of renewals; started again
//	proxy/fleet/certstore/storage.go Storage.TryLock  acme  the renewals of a lock, whose order ends
//	proxy/front/acme/http.go Server.answer        acme  the request for a challenge: 500
//	proxy/watchdog.go Edge.stayWatched                  watchdog     one sign of life; started again
//	proxy/ending.go ending.shutdownContext              shutdown     the hurry of a drain, which has its own end
//	proxy/signals.go OnSignals                          shutdown     one signal; SIGQUIT ends the process all the same
//	proxy/front/listen/disconnect_watch_linux.go newDisconnectWatchEvery  clients      one round of the watch; started again
//	proxy/front/listen/disconnect_watch_linux.go disconnectWatch.dispatch  clients      the news that one client has left
//	proxy/front/listen/disconnect_watch_unix.go newDisconnectWatch  clients      one round of the watch; started again
//	proxy/front/listen/lingering_close.go Listener.closeLingering  linger       the rest of one client's body
//	proxy/telemetry/observe/sink.go NewSink                       log          the lines of one write, counted as dropped; started again
//	proxy/telemetry/observe/otlp.go spanExporter.ExportSpans  spans  one batch of spans, counted as dropped
//	upstreams/probe.go prober.start                     probe        one probe; started again
//	upstreams/probe.go probing.wake                      wake         one request for an engine
//	upstreams/probe.go prober.start                     stall        one look; started again
//	upstreams/stall.go prober.look                      stall        one reading of counters
//	upstreams/plan.go Plan.Probe                         probe        a reload's look at one upstream, which then counts as unknown
//	upstreams/generation_probe.go generationProber.start generation   one generation probe; its slot is freed, the breaker stays as it is
//	upstreams/generation_probe.go generationProber.retrialLater room         starts CircuitBreaker.halfOpen
//	upstreams/generation_probe.go generationProber.trialLater room         starts generationProber.probeTrial
//	upstreams/generation_probe.go generationProber.probeTrial room         one generation probe as a trial; the next comes a second later
//	upstreams/generation_probe.go generationProber.lookLater room         starts generationProber.lookAtDoubt
//	upstreams/generation_probe.go generationProber.lookAtDoubt room         one generation probe of an engine in doubt; the next failure asks for another
//	upstreams/lease.go Lease.FirstToken                 room         starts Lease.passLongTrial
//	upstreams/lease.go Lease.passLongTrial              room         one early pass of a trial; it passes at its end
//	upstreams/discovery.go Plan.lookUp                  addresses    one look-up; the name is dialled as it is
//	upstreams/discovery.go discovery.start              addresses    the answers stay, started again
//	upstreams/http1/dns.go dnsCache.addresses           names        one look-up; the last addresses stay
//	upstreams/http1/idle_pool.go idlePool.put           engines      starts idlePool.sweep
//	upstreams/http1/idle_pool.go idlePool.sweep         engines      one look at idle connections; the next comes with the next call
//	upstreams/http1/conn.go conn.interruptUnacked       engines      the early end of one write under TLS to a host that vanished
//	upstreams/http1/transport.go Transport.ExchangeWhile  engines    nothing; the exchange of a probe ends by its clock
//	upstreams/mode.go handover.begin                     room         one hand-over
//	upstreams/models.go changeTurns                       room         starts turnsChange
//	upstreams/models.go ServedModels.turnsChange         room         one waking of those who wait
//	upstreams/breaker.go CircuitBreaker.publish          room         starts CircuitBreaker.halfOpen
//	upstreams/breaker.go CircuitBreaker.halfOpen         room         one waking of calls that wait; the next freed slot wakes them
//	upstreams/engine/detect.go Discover                 -            a command that is no serving edge: it ends with its stack
//	proxy/tools/batch/batch.go run.all                         -            likewise
//	proxy/tools/batch/batch.go run.report                      -            likewise
//	proxy/operate/top/screen_unix.go watchSize                   -            likewise
//	proxy/operate/top/top.go Run                                 -            likewise
//	proxy/operate/top/top.go loop.ask                            -            likewise
//
// # What is told
//
// A panic is counted by its place (penstock_panics_total) and logged with its type and its stack as
// functions and lines. Its value is not logged: it may hold a client's words. A place that panics
// ten times within ten seconds does not stop by itself. Then the edge is not ready (/-/ready),
// until that place has been calm for thirty seconds: a balancer that has other edges asks those.
//
// # Tests
//
// Point marks where a test may have the edge panic. Under `-tags testing` Inject arms such a point;
// in a release Point is an empty function that the compiler removes.
package guard
