package observe

// Kind is the type of a metric family in the Prometheus text format.
type Kind string

// The kinds that are used.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Family describes one metric: its name, its type, and its meaning in one sentence.
type Family struct {
	Name string
	Kind Kind
	Help string
}

// Families returns every metric of /metrics. Dashboards and alert rules are checked against this
// list.
func Families() []Family { return families }

// families lists the families in the order of the page. Labels are dialect, model and upstream
// (configured names), pool, and words from closed sets.
var families = []Family{
	{"penstock_build_info", Gauge, "Always 1; the labels say which build is running."},

	{"penstock_calls_total", Counter, "Calls that ended, by dialect, model, the upstream asked last, and outcome. A dash: none was resolved, or it is not configured any more. A reload drops the series of upstreams and models that it removes, so apply rate or increase before sum; penstock_key_calls_total and penstock_calls_finished_total lose nothing by the removal of an upstream or a model."},
	{"penstock_calls_finished_total", Counter, "Calls that ended, all of them; unlike penstock_calls_total it loses nothing when a model is removed."},
	{"penstock_calls_inflight", Gauge, "Calls from their first line to their last byte, queued ones included."},
	{"penstock_key_calls_total", Counter, "Calls that ended, by key: 1,000 keys of the configuration, then other; a dash: none was asked for or known. A token counts for its template."},
	{"penstock_key_calls_inflight", Gauge, "Calls whose model is known and that have not ended, by key."},
	{"penstock_key_tokens_total", Counter, "Tokens by key and kind: prompt, cached (of the prompt), completion."},
	{"penstock_key_refusals_total", Counter, "Calls that were refused before an engine was asked, or that engines found no room for, by key and reason: the limit of the key (over limit), or the error's code (capacity_full: full)."},
	{"penstock_calls_estimated_total", Counter, "Calls whose tokens the engine did not report, so that penstock_tokens_total holds an estimate of them."},
	{"penstock_calls_full_total", Counter, "Calls that found the model full, by dialect and model: every slot is in use, at the edge or in the engines. Those over a limit of their key are not among them."},
	{"penstock_call_duration_seconds", Histogram, "End to end: from a call's head to its last byte, of successful calls."},
	{"penstock_ttft_seconds", Histogram, "Time to first token as the client saw it: from the request to the first event of a stream. Successful streams only; penstock_call_duration_seconds has all answers."},
	{"penstock_itl_seconds", Histogram, "Inter-token latency: the gap between two arrivals of events in a stream. Events that came together are one arrival."},
	{"penstock_queue_seconds", Histogram, "Time that calls waited for a slot, of calls that waited and got one."},
	{"penstock_overhead_seconds", Histogram, "Time that the edge itself added before the first byte of the answer: without its waits for the client's body, a slot and the engine."},
	{"penstock_tokens_total", Counter, "Tokens of answered calls by kind: prompt, completion, and cached (the part of prompt that the engine had in its cache)."},
	{"penstock_choices_total", Counter, "Calls for which an upstream was picked among several, by model and reason: cached (the answer was expected soonest there, and the engine held a part of the prompt), soonest (likewise, and it held nothing), home (no engine held the conversation, or another edge had sent it there), only (no other had room), unmeasured (the speed of one is not known, so tokens to read and calls decide)."},
	{"penstock_chosen_prompt_tokens_total", Counter, "Prompt tokens of those calls, of answers whose tokens the engine reported, by model, the upstream asked last, and kind: prompt, cached (the part that the engine had in its cache), expected (the part that it was believed to have when it was picked)."},
	{"penstock_suspect_markup_total", Counter, "Answers whose text begins with a model's own markup of reasoning, or of tool calls although the request offered tools: the engine has no parser for the model, or the wrong one."},
	{"penstock_dropped_total", Counter, "Calls whose request went to the engine without something, by what was left out: tool:NAME (the engine's side cannot run it), item:NAME (of a Responses history), block:NAME (of a Messages history), member:NAME; item:reasoning and block:thinking were sealed by another provider or edge; answer:tool_calls counts answers without the tool calls behind the first, where the request forbids parallel ones and the engine made some. The answer's X-Penstock-Dropped tells the client."},
	{"penstock_errors_total", Counter, "Requests to the API that were refused or failed, by the error's code; clients that left apart."},
	{"penstock_limit_refusals_total", Counter, "Calls that were full or over limit, by what refused: requests_per_minute, tokens_per_minute, concurrency, tokens_per_day, tokens_per_month, spend_per_day, spend_per_month (of the key; with group_ in front, of its group), pool, engine, or the error's code."},
	{"penstock_client_aborts_total", Counter, "Clients that left, by the phase in which: body, queued, waiting (for the first token), streaming, stalled (stopped reading)."},
	{"penstock_stream_aborts_total", Counter, "Streams that broke off after bytes had been sent, by the reason's code."},
	{"penstock_panics_total", Counter, "Recovered panics, by place: each lost one call, or one round of background work. A rise is a bug."},

	{"penstock_fleet_store_up", Gauge, "1 while the fleet's store answers; 0 while limits are held without it."},
	{"penstock_fleet_members", Gauge, "Edges of the fleet that were alive at the last heartbeat, this one included."},
	{"penstock_fleet_board_edges", Gauge, "Edges whose calls at the engines this edge knows, itself included; 0 while each edge has its own part of the slots."},
	{"penstock_fleet_placements_total", Counter, "Placements of conversations by edges of the fleet: told by this edge, learned, and unread because they were sealed by another secret."},
	{"penstock_fleet_wait_seconds", Histogram, "How long calls waited for the fleet's store, of calls that waited."},
	{"penstock_fleet_messages_total", Counter, "Messages to the fleet's store, by result."},
	{"penstock_issuer_keys", Gauge, "Public keys by which tokens of an issuer are verified. 0: they have not been fetched yet, and its tokens are refused."},
	{"penstock_issuer_fetched_timestamp_seconds", Gauge, "When the keys of an issuer were fetched last. Issuers whose keys are in a file have none."},
	{"penstock_issuer_fetch_failures_total", Counter, "Fetches of an issuer's keys that failed. The last good ones stay."},
	{"penstock_fleet_keys", Gauge, "Keys of the fleet's store that are in force, those of the configuration apart."},
	{"penstock_fleet_certificates_refused_total", Counter, "Entries of certificates and accounts in the fleet's store that were refused, by reason: forged (sealed by no edge, or for another place), stale (sealed by a key that this edge does not have), older (than what this edge has)."},
	{"penstock_fleet_keys_refused_total", Counter, "Entries of keys in the fleet's store that were refused, by reason: forged (not signed with a secret of the fleet, or cut), older (than one that was read before), broken."},
	{"penstock_fleet_alone_total", Counter, "Decisions about a key's limits that were made without the fleet's store."},

	{"penstock_ledger_writes_total", Counter, "Rounds in which usage was written to the ledger, by result: ok, error. With an error it waits in memory and is written later."},
	{"penstock_ledger_unsaved_seconds", Gauge, "How long usage has been waiting to be written to the ledger: what a killed edge would lose."},
	{"penstock_ledger_export_total", Counter, "Deliveries of the ledger's rows to a sink, by its place in ledger.export and result: ok, error. After an error they wait and go again."},
	{"penstock_ledger_export_behind_seconds", Gauge, "How long rows of the ledger have been waiting for a sink of ledger.export, by its place."},
	{"penstock_ledger_bad_lines_total", Counter, "Lines of the ledger that did not fit their checksum when it was read, and were left out."},

	{"penstock_model_ready", Gauge, "1 when some upstream that is up serves the model."},
	{"penstock_model_tier", Gauge, "First tier of the model that has an upstream which is up and serves it, full or not; -1 when none has. Of models with tiers."},
	{"penstock_overflow_calls_total", Counter, "Calls that ended at an upstream of a tier above 0, by model and tier: overflow while the tiers before it were full or out."},
	{"penstock_arm_calls_total", Counter, "Calls that ended at an arm of the model, which has a share of its calls (deployments[].traffic); a dash: at an upstream without a share. Of models with arms."},
	{"penstock_arm_missed_calls_total", Counter, "Calls of an arm that ended at an upstream outside it, because none of the arm's took calls or had a slot, or after a failure there."},
	{"penstock_arm_refused_calls_total", Counter, "Calls of an arm for which it had no slot, or took no calls, answered elsewhere or not; a dash: of those without an arm."},
	{"penstock_shadow_calls_total", Counter, "Copies of a model's calls for another model (to), by result: ok, failed, unfit (its rules, limits or context do not allow the request, or its engine refused it as wrong), client_gone, drained, and not sent: no_slot (no engine was less than half busy, or calls waited), no_memory, forbidden (all of its engines are external, and the key has not listed their tiers)."},
	{"penstock_shadow_tokens_total", Counter, "Tokens of copies of a model's calls for another model (to), as its engines report them, by kind: prompt, completion. They are no key's."},
	{"penstock_class_calls_total", Counter, "Calls that have ended, by class and model, of all classes but the first."},
	{"penstock_class_queue_waiting", Gauge, "Calls of a class that wait for a slot of the model, of all classes but the first."},
	{"penstock_fallback_calls_total", Counter, "Calls of a model that another one (to) was asked for last, because no upstream of the model had a slot or took calls. In other metrics they are the other model's."},
	{"penstock_model_idle_seconds", Gauge, "Time since the model's last call ended, or since the start if it had none; 0 while one runs or waits. A scaler that stops engines reads it."},
	{"penstock_model_queue_waiting", Gauge, "Calls that wait for a slot of the model."},
	{"penstock_model_queue_limit", Gauge, "Most calls that may wait for a slot of the model."},

	{"penstock_retries_total", Counter, "Calls that were sent to another upstream after a failure."},
	{"penstock_retries_denied_total", Counter, "Calls that could have been sent again, had the retry budget not been used up."},
	{"penstock_requests_changed_total", Counter, "Requests that an engine refused and was sent once more, by what it refused: the word of the reasoning effort, which was left out, or turns of one role in a row, which were joined."},
	{"penstock_max_tokens_refits_total", Counter, "Requests that were sent again with what the engine said it has room for, or to an engine with a longer context."},
	{"penstock_calls_moved_total", Counter, "Calls that were sent to another upstream because theirs was taken out before it had answered, by the reason: vanished (its host, or it answered nothing any more), stalled (nothing in it moved, or it is busy and was silent for too long), drained (its drain time was over). The retry budget does not count them."},
	{"penstock_calls_yielded_total", Counter, "Calls that were refused although a slot was free, because it was kept for a client of another key that was refused before and is due to come back."},
	{"penstock_reasoning_seals_total", Counter, "Reasoning and compactions that clients carry, by the result: sealed, too_long (not sealed), opened; and left out of a request, or refused if it is a compaction: foreign (another provider's), stale (of an unknown key), forged (changed, cut, or of another key id or model)."},
	{"penstock_streams_resumed_total", Counter, "Times that another upstream was asked to go on with a stream whose upstream was lost, had stalled or was drained for timeouts.drain. The retry budget does not count them."},
	{"penstock_resumed_prompt_tokens_total", Counter, "Prompt tokens that engines read again to resume streams, with the beginning of the answer. No key is charged for them."},
	{"penstock_hook_decisions_total", Counter, "Answers of hooks, by the hook and the result: allow, refuse, rewrite, route; error and timeout if there was no valid decision, and on_error decided."},
	{"penstock_hook_copies_total", Counter, "Copies of calls for hooks with `after`, by the hook and the result: delivered; or why they were lost: full (the sink is slower than the calls), unreachable, timeout, status (an error from the sink), write (to a file), ended (the sink was removed or the edge ended)."},
	{"penstock_hook_seconds_total", Counter, "Seconds that calls have waited for hooks, by the hook."},
	{"penstock_retry_budget", Gauge, "Retries that the budget allows in ten seconds of the present traffic."},
	{"penstock_retry_budget_used", Gauge, "Retries of the last ten seconds."},

	{"penstock_upstream_up", Gauge, "1 when the upstream's probes pass."},
	{"penstock_upstream_stalled", Gauge, "1 when the upstream is out because it has work and nothing moves, although its probes pass."},
	{"penstock_upstream_busy", Gauge, "1 when the upstream has calls and does not answer its probes: it takes no new calls, and keeps those that it has."},
	{"penstock_upstream_lacks", Gauge, "1 for a feature that the upstream's engine refuses and others of its model answer: no calls with that feature go there. The flag is what the engine has to be started with, where its profile knows one."},
	{"penstock_upstream_still_seconds", Gauge, "How long neither the engine's counters nor an answer of its calls has moved; 0 without work."},
	{"penstock_upstream_progress_counted", Gauge, "1 when the engine's own counters show whether it works, 0 when only the answers of its calls do."},
	{"penstock_upstream_state_seconds", Gauge, "How long the upstream has been in its state."},
	{"penstock_upstream_admitted", Gauge, "1 when the operator allows calls there; 0 while it is drained or in maintenance."},
	{"penstock_upstream_wakes_total", Counter, "Requests to wake the upstream's engine, by result: asked, failed."},
	{"penstock_upstream_breaker_open", Gauge, "1 when the breaker is open or half-open."},
	{"penstock_upstream_inflight", Gauge, "Leases held, by pool."},
	{"penstock_upstream_limit", Gauge, "Slots, by pool, minus those that ghosts hold."},
	{"penstock_upstream_places", Gauge, "Calls that a pick expects the engine to run at once, by pool: its slots, or fewer if its reports have shown that calls beyond those wait."},
	{"penstock_upstream_others", Gauge, "Work of other clients at the engine, by its last fresh report."},
	{"penstock_upstream_ghosts", Gauge, "Slots in which the engine still works for clients that left."},
	{"penstock_upstream_running", Gauge, "Running requests, as the engine reports them; -1 when its last report is too old."},
	{"penstock_upstream_waiting", Gauge, "Requests waiting in the engine, as it reports them; -1 when its last report is too old."},
	{"penstock_upstream_kv_usage_ratio", Gauge, "Used share of the engine's cache, as it reports it; -1 when its last report is too old."},
	{"penstock_upstream_probe_age_seconds", Gauge, "Time since the last probe ended; -1 before the first."},
	{"penstock_upstream_report_age_seconds", Gauge, "Age of the engine's last report on its load; -1 when there is none."},
	{"penstock_upstream_prompt_tokens_per_second", Gauge, "Prompt tokens a second that the engine reads, measured on streams of the model that was called last; -1 while there are too few."},
	{"penstock_upstream_answer_tokens_per_second", Gauge, "Answer tokens a second of a call that is alone at the engine, measured likewise on streams of the model that was called last."},
	{"penstock_upstream_surplus_total", Counter, "Times that the upstream sent unsolicited bytes, such as a second reply. For a minute after that its connections are used for one request each."},
	{"penstock_upstream_attempts_total", Counter, "Attempts that ended, by result: ok, client_gone, timeout, unreachable, bad_response, refused (full), rejected (the request), model_gone, stalled (the call was moved), handed_over (likewise, from a drained upstream)."},
	{"penstock_upstream_failures_total", Counter, "Attempts that failed, of calls that have ended, by upstream, cause and the status of the engine's answer (a dash: there was none; other: a number that HTTP does not know). The causes are in the reference of the log. The cause rejected is usually the client's fault."},
	{"penstock_upstream_generation_probes_total", Counter, "Generation probes: requests of the edge's own, of one token, that confirm whether an engine fails; by result: ok, failed, refused (full), rejected (the probe), aborted. They are no calls."},
	{"penstock_upstream_abandoned_total", Counter, "Calls given up at the engine (the client left, a clock ran out) by what its running count did then: freed (it fell), held (it did not), unknown (the engine does not say)."},
	{"penstock_upstream_ttft_seconds", Histogram, "Time from sending to the engine's first event. Streams only."},
	{"penstock_discovered_models", Gauge, "Models in the catalog because an engine lists them; by upstream."},
	{"penstock_discovered_models_left_out", Gauge, "Models that an engine lists but the catalog leaves out because of their names or their number; by upstream."},
	{"penstock_discovery_targets", Gauge, "Endpoints of the last good answer of DNS, or pods' of the last list and the events since; by source."},
	{"penstock_discovery_stale_seconds", Gauge, "Time without a good answer or a watch; 0: the last one was good. What is known stays in use."},
	{"penstock_discovery_failed_total", Counter, "Look-ups, lists and watches that have failed."},
	{"penstock_lease_double_release_total", Counter, "Leases released twice. A rise is a bug."},

	{"penstock_config_generation", Gauge, "Number of the running configuration since the start."},
	{"penstock_config_generation_calls_inflight", Gauge, "Calls in flight by the configuration they began with."},
	{"penstock_reloads_total", Counter, "Reloads by result: ok, bad (refused), keys_only (refused, but the file's keys are in force), unchanged."},
	{"penstock_reload_successful", Gauge, "1 when the last reload took effect, or there was none."},
	{"penstock_reload_success_timestamp_seconds", Gauge, "When the running configuration took effect."},
	{"penstock_reload_duration_seconds", Gauge, "How long the last reload took."},
	{"penstock_certificate_expiry_timestamp_seconds", Gauge, "When the edge's certificate expires, by domain if it obtains them itself; absent without one."},
	{"penstock_admin_certificate_expiry_timestamp_seconds", Gauge, "When the admin listener's certificate (admin.tls) expires; absent without one."},
	{"penstock_acme_failures", Gauge, "Attempts in a row to obtain or renew the certificate of a domain that failed; 0: the last one was good."},
	{"penstock_acme_waiting", Gauge, "Domains whose certificate is due and not ordered, because the fleet's store does not answer."},
	{"penstock_acme_orders_total", Counter, "Attempts to obtain or renew a certificate, by result: ok, failed."},
	{"penstock_draining", Gauge, "1 while the edge shuts down."},

	{"penstock_body_memory_bytes", Gauge, "Memory held for request bodies."},
	{"penstock_body_memory_limit_bytes", Gauge, "Most memory that request bodies may hold together."},
	{"penstock_reply_memory_bytes", Gauge, "Memory held for engines' replies, beyond 64 KiB a call."},
	{"penstock_reply_memory_limit_bytes", Gauge, "Most memory that engines' replies may hold together, beyond 64 KiB a call."},
	{"penstock_client_connections", Gauge, "Open client connections."},
	{"penstock_websocket_connections", Gauge, "Open client connections that speak WebSocket."},
	{"penstock_websocket_connections_total", Counter, "Client connections that have spoken WebSocket. Many, compared to the calls of their clients, mean that conversations are sent in full each time."},
	{"penstock_client_connections_limit", Gauge, "Most client connections that may be open at once: limits.connections, or less if the process may not open as many descriptors."},
	{"penstock_client_connections_evicted_total", Counter, "Idle client connections closed to make room for others at limits.connections."},
	{"penstock_client_connections_rejected_total", Counter, "Client connections refused: beyond limits.connections with none idle, or beyond limits.connections_per_address."},
	{"penstock_proxy_headers_refused_total", Counter, "Client connections closed because of the PROXY protocol's header, by reason: missing and invalid from a network of listen_trusted, unlisted from another one."},
	{"penstock_accept_errors_total", Counter, "Failures to accept a connection, at either listener."},
	{"penstock_admin_denied_total", Counter, "Requests to the admin listener with a wrong token (token), or from an address that was blocked because it had sent too many of them (brake)."},
	{"penstock_admin_connections", Gauge, "Open connections at the admin listener."},
	{"penstock_admin_connections_limit", Gauge, "Most connections that may be open at the admin listener at once."},
	{"penstock_admin_connections_dropped_total", Counter, "Connections of the admin listener that were closed or turned away to keep to its limit."},
	{"penstock_log_dropped_total", Counter, "Log lines lost because the log's destination did not keep up."},
	{"penstock_spans_dropped_total", Counter, "Trace spans lost because the trace endpoint did not keep up."},

	{"go_goroutines", Gauge, "Goroutines."},
	{"go_threads", Gauge, "Operating system threads of the Go runtime."},
	{"go_gc_cpu_seconds_total", Counter, "Processor time of the garbage collector."},
	{"go_gc_cycles_total", Counter, "Collections of the heap."},
	{"go_memstats_alloc_bytes", Gauge, "Bytes of live and not yet collected objects."},
	{"go_memstats_heap_inuse_bytes", Gauge, "Bytes in spans of the heap that are in use."},
	{"go_memstats_sys_bytes", Gauge, "Bytes taken from the operating system."},
	{"process_cpu_seconds_total", Counter, "Processor time of the process."},
	{"process_max_fds", Gauge, "File descriptors that the process may open."},
	{"process_open_fds", Gauge, "File descriptors that are open."},
	{"process_resident_memory_bytes", Gauge, "Resident memory."},
	{"process_start_time_seconds", Gauge, "When the process started."},
	{"process_virtual_memory_bytes", Gauge, "Virtual memory."},
}
