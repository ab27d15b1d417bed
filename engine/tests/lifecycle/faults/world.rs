//! The world: steps of all actors, over a network that loses, delays and repeats requests.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::lifecycle::fence::{FenceEventType, FenceScope, FenceState};

use super::controller::Person;
use super::invariant;
use super::machine::{Agent, Machine, Mechanism};
use super::node::{OUT_OF_SERVICE, no_execute};
use super::store::{Action, Key, PETS, Request, Server, Store, fence_event, name_of, node_of};

pub(super) const N_NODES: usize = 4;

/// The fate of a request and its response.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Fine,
    LostRequest,
    /// The request is carried out, but the sender gets no response.
    LostAnswer,
    /// The request arrives later, after others.
    Delayed,
    /// The request arrives now, and a second time later.
    Repeated,
}

/// The actor of a step.
#[derive(Copy, Clone, Debug)]
pub(super) enum Who {
    Agent(usize),
    /// One of its two instances.
    Controller(Kind, usize),
    Mechanism,
    Person(Person),
    Administrator(usize),
    /// A delayed request arrives.
    Delivery,
    Clock(i64),
    /// One step of each actor, over a working network.
    Round,
    Fault(Fault),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StatefulSet,
    Scheduler,
    Node,
    PodGc,
    Fencing,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::StatefulSet, Kind::Scheduler, Kind::Node, Kind::PodGc, Kind::Fencing];
}

/// A fault, or its end.
#[derive(Copy, Clone, Debug)]
pub(super) enum Fault {
    /// Cut between the control plane and a node.
    CutNode(usize, bool),
    CutZone(usize, bool),
    CutAll(bool),
    /// Cut between a node and the other nodes.
    CutPeers(usize, bool),
    /// Cut between a controller and the store.
    CutStore(Kind, usize, bool),
    AgentCrash(usize),
    ControllerCrash(Kind, usize),
    PowerOff(usize),
    Boot(usize),
    /// A process ends by itself.
    ProcessEnd(usize),
    /// A node ends one of its pods.
    Eviction(usize),
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Step {
    pub(super) who: Who,
    pub(super) pick: usize,
    pub(super) network: Network,
}

/// An instance of a controller, with its last read and its memory.
#[derive(Default)]
pub(super) struct Controller {
    view: Option<Store>,
    is_cut: bool,
    /// By node: the last heartbeat that the controller saw, and when.
    pub(super) contacts: BTreeMap<String, (u64, i64)>,
    /// By pod: when an eviction was scheduled, and for when.
    pub(super) evictions: BTreeMap<String, (i64, i64)>,
    /// Nodes without an object, with the time since when.
    pub(super) absent: BTreeMap<String, i64>,
    /// Nodes without contact, with the time since when.
    pub(super) lost: BTreeMap<String, i64>,
}

impl Controller {
    /// Returns the controller's last read. Every other time it reads again first, if it can.
    pub(super) fn read(&mut self, server: &Server, pick: usize) -> Option<Store> {
        if !self.is_cut && (self.view.is_none() || pick.is_multiple_of(2)) {
            self.view = Some(server.store.clone());
        }
        self.view.clone()
    }

    fn crash(&mut self) {
        *self = Controller { is_cut: self.is_cut, ..Controller::default() };
    }
}

pub(super) struct World {
    pub(super) now: i64,
    pub(super) server: Server,
    pub(super) machines: Vec<Machine>,
    pub(super) mechanism: Mechanism,
    /// The scope of fences in this world.
    pub(super) scope: FenceScope,
    /// Whether reports of the other nodes count.
    pub(super) peers_count: bool,
    pub(super) unheard_by_peers: BTreeSet<String>,
    pub(super) cordoned: BTreeSet<String>,
    /// Two instances of each controller, by kind.
    pub(super) controllers: [[Controller; 2]; 5],
    pub(super) person: Controller,
    in_flight: Vec<Request>,
    pub(super) agent_steps: usize,
    /// The step of an agent after which all agents lose their memory.
    pub(super) agents_crash_after: Option<usize>,
    pub(super) fencing_steps: usize,
    counts: BTreeMap<String, usize>,
}

impl World {
    pub(super) fn new(scope: FenceScope, peers_count: bool) -> World {
        let machines: Vec<_> = (0..N_NODES).map(|i| Machine::new(&format!("n{i}"))).collect();
        World {
            now: 1_000,
            server: Server::new(machines.iter().map(Machine::node)),
            machines,
            mechanism: Mechanism::default(),
            scope,
            peers_count,
            unheard_by_peers: BTreeSet::new(),
            cordoned: BTreeSet::new(),
            controllers: Default::default(),
            person: Controller::default(),
            in_flight: Vec::new(),
            agent_steps: 0,
            agents_crash_after: None,
            fencing_steps: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Makes one step, and checks all invariants after it.
    pub(super) fn step(&mut self, step: &Step) {
        let before = self.server.store.clone();
        let n_records = self.server.journal.len();
        self.act(step);
        invariant::check(self, &before, n_records, step);
        for record in &self.server.journal[n_records..] {
            *self.counts.entry(invariant::summary(record)).or_default() += 1;
        }
    }

    fn act(&mut self, step: &Step) {
        let Step { who, pick, network } = *step;
        match who {
            Who::Agent(node) => self.agent_step(node, pick, network),
            Who::Controller(kind, instance) => {
                let network = self.reach(kind, instance, network);
                match kind {
                    Kind::StatefulSet => self.stateful_set_step(instance, pick, network),
                    Kind::Scheduler => self.scheduler_step(instance, pick, network),
                    Kind::Node => self.node_controller_step(instance, pick, network),
                    Kind::PodGc => self.pod_gc_step(instance, pick, network),
                    Kind::Fencing => self.fencing_step(instance, pick, network),
                }
            }
            Who::Mechanism => self.mechanism_step(pick),
            Who::Person(person) => self.person_step(person, pick, network),
            Who::Administrator(node) => self.administrator_step(node, pick),
            Who::Delivery if self.in_flight.is_empty() => {}
            Who::Delivery => {
                let request = self.in_flight.swap_remove(pick % self.in_flight.len());
                let is_done = self.server.handle(&request);
                self.count(if is_done { "late, accepted" } else { "late, refused" });
            }
            Who::Clock(seconds) => self.now += seconds,
            Who::Round => self.round(pick, false),
            Who::Fault(fault) => self.fault(fault),
        }
    }

    /// Returns the fate of a request of this controller: if the controller is cut off, the request is lost or delayed.
    fn reach(&self, kind: Kind, instance: usize, network: Network) -> Network {
        match network {
            _ if !self.controllers[kind as usize][instance].is_cut => network,
            Network::Delayed | Network::Repeated => Network::Delayed,
            _ => Network::LostRequest,
        }
    }

    /// Returns what this instance has read.
    pub(super) fn read(&mut self, kind: Kind, instance: usize, pick: usize) -> Option<Store> {
        self.controllers[kind as usize][instance].read(&self.server, pick)
    }

    fn controller(&mut self, kind: Kind, instance: usize) -> &mut Controller {
        &mut self.controllers[kind as usize][instance]
    }

    /// Sends a request; returns whether the sender knows that it was carried out or refused.
    pub(super) fn send(&mut self, request: Request, network: Network) -> bool {
        match network {
            Network::LostRequest => return false,
            Network::Delayed => {
                self.in_flight.push(request);
                return false;
            }
            Network::Repeated => self.in_flight.push(request.clone()),
            Network::Fine | Network::LostAnswer => {}
        }
        let is_done = self.server.handle(&request);
        self.count(if is_done { "accepted" } else { "refused" });
        network != Network::LostAnswer
    }

    pub(super) fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn counts(&self) -> &BTreeMap<String, usize> {
        &self.counts
    }

    /// The mechanism completes a request, and lifts fences that are not requested any more.
    fn mechanism_step(&mut self, pick: usize) {
        self.mechanism.step(&mut self.machines, pick);
        for machine in &mut self.machines {
            let fence = self.server.store.fences.get(&machine.name);
            let is_wanted = fence.is_some_and(|fence| {
                !matches!(fence.state, FenceState::Detected | FenceState::Recovered)
            });
            if !is_wanted {
                machine.is_network_fenced = false;
                machine.is_storage_fenced = false;
            }
        }
    }

    /// A person who sees the machines, and whose reports are true: a node is declared out of service while it is off,
    /// and stays off as long as it is so declared; only a machine that never comes back loses its node object.
    fn administrator_step(&mut self, node: usize, pick: usize) {
        let n_left = self.machines.iter().filter(|machine| !machine.is_destroyed).count();
        let machine = &mut self.machines[node];
        let store = &self.server.store;
        let name = machine.name.clone();
        let key = [Key::Node(name.clone())];
        let request = match store.nodes.get(&name) {
            None => None,
            Some(_) if machine.is_destroyed => Some(store.request(&key, Action::RemoveNode(name))),
            Some(_) if machine.is_on => {
                let is_clean = machine.rebooted_since_fence && machine.processes.is_empty();
                let event = fence_event(FenceEventType::NodeReturned, is_clean);
                (machine.is_network_fenced && is_clean)
                    .then(|| store.request(&[], Action::Fence { node: name, event }))
            }
            Some(_) if pick.is_multiple_of(4) && n_left > 2 => {
                machine.is_destroyed = true;
                None
            }
            Some(object) => {
                let mut object = object.clone();
                let taints = &mut object.spec.as_mut().unwrap().taints;
                let n = taints.len();
                taints.retain(|taint| taint.key != OUT_OF_SERVICE);
                if taints.len() == n {
                    taints.push(no_execute(OUT_OF_SERVICE));
                }
                let is_due = taints.len() > n || pick.is_multiple_of(16);
                is_due.then(|| store.request(&key, Action::UpdateNode(Box::new(object))))
            }
        };
        if let Some(request) = request {
            self.send(request, Network::Fine);
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::CutNode(node, is_cut) => self.machines[node].is_cut = is_cut,
            Fault::CutZone(zone, is_cut) => {
                for node in [zone * 2, zone * 2 + 1] {
                    self.machines[node].is_cut = is_cut;
                }
            }
            Fault::CutAll(is_cut) => {
                for machine in &mut self.machines {
                    machine.is_cut = is_cut;
                }
            }
            Fault::CutPeers(node, is_cut) => {
                let name = self.machines[node].name.clone();
                if is_cut {
                    self.unheard_by_peers.insert(name);
                } else {
                    self.unheard_by_peers.remove(&name);
                }
            }
            Fault::CutStore(kind, instance, is_cut) => {
                self.controller(kind, instance).is_cut = is_cut;
            }
            Fault::ControllerCrash(kind, instance) => self.controller(kind, instance).crash(),
            Fault::AgentCrash(node) => {
                if let Some(agent) = &mut self.machines[node].agent {
                    *agent = Agent::default();
                }
            }
            Fault::PowerOff(node) => self.machines[node].power_off(),
            Fault::Boot(node) => self.boot(node),
            Fault::ProcessEnd(node) => {
                let processes = &mut self.machines[node].processes;
                if let Some(process) = processes.values_mut().find(|process| process.is_running) {
                    process.is_running = false;
                    process.exit_code = 1;
                }
            }
            Fault::Eviction(node) => {
                let machine = &mut self.machines[node];
                let victim = machine.processes.keys().next().cloned();
                if let Some(agent) = &mut machine.agent {
                    agent.evicting = victim;
                }
            }
        }
    }

    fn boot(&mut self, node: usize) {
        let object = self.server.store.nodes.get(&self.machines[node].name);
        let is_declared_dead = object.is_none_or(|object| {
            object.spec.as_ref().unwrap().taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
        });
        if !is_declared_dead {
            self.machines[node].boot();
        }
    }

    /// Ends all faults, except for machines that are off; an administrator withdraws the out-of-service declarations.
    pub(super) fn heal(&mut self) {
        self.fault(Fault::CutAll(false));
        self.unheard_by_peers.clear();
        self.cordoned.clear();
        for controller in self.controllers.iter_mut().flatten() {
            controller.is_cut = false;
        }
        for node in 0..N_NODES {
            if let Some(object) = self.server.store.nodes.get(&self.machines[node].name) {
                let mut object = object.clone();
                let taints = &mut object.spec.as_mut().unwrap().taints;
                taints.retain(|taint| taint.key != OUT_OF_SERVICE);
                let action = Action::UpdateNode(Box::new(object));
                let request = self.server.store.request(&[], action);
                self.send(request, Network::Fine);
            }
        }
        while !self.in_flight.is_empty() {
            self.step(&Step { who: Who::Delivery, pick: 0, network: Network::Fine });
        }
    }

    /// Runs rounds over a working network until every pet runs with all its needs; returns whether that was reached.
    pub(super) fn settle(&mut self, n_rounds: usize, boots: bool) -> bool {
        for round in 0..n_rounds {
            if self.is_settled() {
                return true;
            }
            self.round(round, boots);
        }
        self.is_settled()
    }

    /// Makes one step of each actor.
    pub(super) fn round(&mut self, round: usize, boots: bool) {
        let mut steps = vec![Who::Clock(3), Who::Mechanism];
        for node in 0..N_NODES {
            steps.extend([Who::Agent(node), Who::Agent(node)]);
            let machine = &self.machines[node];
            if machine.is_destroyed || (machine.is_network_fenced && machine.is_on) {
                steps.push(Who::Administrator(node));
            }
            if boots {
                // A fenced node that still runs has to be restarted by a person.
                if self.is_still_fenced(node) {
                    steps.push(Who::Fault(Fault::PowerOff(node)));
                }
                steps.push(Who::Fault(Fault::Boot(node)));
            }
        }
        for instance in 0..2 {
            steps.extend(Kind::ALL.map(|kind| Who::Controller(kind, instance)));
        }
        for (at, who) in steps.into_iter().enumerate() {
            let pick = round.wrapping_mul(31).wrapping_add(at.wrapping_mul(17));
            self.step(&Step { who, pick, network: Network::Fine });
        }
    }

    fn is_still_fenced(&self, node: usize) -> bool {
        let machine = &self.machines[node];
        let fence = self.server.store.fences.get(&machine.name);
        let is_confirmed = fence.is_some_and(|fence| {
            matches!(fence.state, FenceState::Fenced | FenceState::AttachmentsBroken)
        });
        is_confirmed && machine.is_on && !machine.rebooted_since_fence
    }

    /// Whether one live process of each pet runs, for the pod that holds its name.
    pub(super) fn is_settled(&self) -> bool {
        PETS.iter().all(|(name, _)| self.runs_on(name).is_some())
    }

    /// Returns the node on which the holder of a name runs.
    pub(super) fn runs_on(&self, name: &str) -> Option<&str> {
        let uid = self.server.store.locks.get(name)?.holder_uid.as_ref()?;
        let pod = self.server.store.pods.get(uid).filter(|pod| name_of(pod) == name)?;
        let machine = self.machines.iter().find(|machine| machine.name == node_of(pod))?;
        let process = machine.processes.get(uid)?;
        (machine.is_live() && process.is_running).then_some(&machine.name)
    }
}
