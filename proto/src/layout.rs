//! Layout: how much memory a message takes once it is decoded, told from its bytes. A few bytes on the wire can become a
//! thousand: an empty container takes 2 bytes there, and several hundred as a value. So a message is measured, and its
//! lists are counted, before any of it is decoded.

include!(concat!(env!("OUT_DIR"), "/layout.rs"));

/// The layout of a message.
pub struct Layout {
    name: &'static str,
    /// Whether it is a message of Kubernetes: an object, or a part of one.
    is_object: bool,
    /// Size of the value, without what it points to.
    n_bytes: usize,
    fields: &'static [Field],
}

struct Field {
    number: u32,
    /// Name in JSON.
    name: &'static str,
    /// Whether it is a list or a map.
    is_list: bool,
    /// Whether the list may be as long as one of texts.
    is_long: bool,
    held: Held,
}

/// What one element of a field holds.
enum Held {
    Number,
    Text,
    Message(&'static Layout),
    /// A value by its text key; the value's layout if that is a message.
    Map(Option<&'static Layout>),
}

/// Most elements and bytes of a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Elements of one list of messages, or of one map, inside an object of Kubernetes.
    pub max_list_items: usize,
    /// Elements of all lists of one object together, those of texts and numbers included.
    pub max_object_items: usize,
    /// Bytes of one object as it was sent.
    pub max_object_bytes: usize,
    /// Elements of one list of a request that are not inside of an object.
    pub max_request_items: usize,
}

/// The size of a message.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Number of elements of all lists.
    pub n_items: usize,
    /// About as many bytes as the decoded message takes.
    pub n_bytes: usize,
}

/// Reason why a message is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A list or an object is too large.
    Excess {
        /// Path of the field, such as `pod.spec.containers`.
        path: String,
        /// What there is too much of.
        what: Excess,
        /// The limit.
        limit: usize,
    },
    /// The bytes are no message: decoding them would say so, too.
    Malformed,
    /// The bytes end inside of a field.
    Truncated,
}

/// What there is too much of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Elements of this list.
    Items,
    /// Elements of all lists of this object.
    ObjectItems,
    /// Bytes of this object.
    ObjectBytes,
    /// Occurrences of a field that is no list.
    Occurrences,
    /// Messages inside of messages.
    Depth,
}

/// Messages inside of messages, as prost bounds them.
const MAX_DEPTH: usize = 100;
/// Occurrences of a field that is no list: a client may send one twice to have both merged, and no more.
const MAX_OCCURRENCES: u32 = 4;
/// Most fields of a message that are counted apart; no message has as many, and most have fewer than the next number.
const MAX_FIELDS: usize = 96;
const FEW_FIELDS: usize = 32;
/// Bytes of a text besides its characters, and of a map's entry besides key and value.
const TEXT_BYTES: usize = size_of::<String>() + 16;
const ENTRY_BYTES: usize = 64;

/// The layout of the request of the method at `path`, such as `/berth.v1.PlacementService/Place`.
#[must_use]
pub fn of_request(path: &str) -> Option<&'static Layout> {
    REQUESTS.iter().find(|(known, _)| *known == path).map(|(_, layout)| *layout)
}

impl Layout {
    /// Measures an encoded message.
    ///
    /// # Errors
    /// [`Refused`] with the first list or object that is too large.
    pub fn measure(&'static self, message: &[u8], bounds: &Bounds) -> Result<Measured, Refused> {
        let mut meter = Meter::new(self, *bounds);
        meter.advance(message, true)?;
        Ok(meter.measured())
    }

    /// Whether the message has a field of this name.
    #[must_use]
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// The field of a number, and its position. Fields are in the order of their numbers, most of which follow each other.
    fn field(&self, number: u32) -> Option<(usize, &Field)> {
        let last = self.fields.len().checked_sub(1)?;
        let mut index = last.min(usize::try_from(number).ok()?.checked_sub(1)?);
        while self.fields[index].number > number {
            index = index.checked_sub(1)?;
        }
        Some((index, &self.fields[index])).filter(|(_, field)| field.number == number)
    }
}

/// Measures a message while it comes in.
#[derive(Debug)]
pub struct Meter {
    layout: &'static Layout,
    measuring: Measuring,
    counts: [u32; MAX_FIELDS],
    /// Number of bytes that are measured.
    n_done: usize,
}

impl Meter {
    /// A meter for a message of this layout.
    #[must_use]
    pub fn new(layout: &'static Layout, bounds: Bounds) -> Meter {
        let measuring = Measuring::new(layout, bounds);
        Meter { layout, measuring, counts: [0; MAX_FIELDS], n_done: 0 }
    }

    /// Measures what has come of the message so far, from its beginning; `is_whole` once nothing more comes.
    ///
    /// # Errors
    /// [`Refused`] with the first list or object that is too large.
    pub fn advance(&mut self, message: &[u8], is_whole: bool) -> Result<(), Refused> {
        let mut reader = Reader(message.get(self.n_done..).unwrap_or_default());
        loop {
            match self.measuring.one_field(self.layout, &mut reader, &mut self.counts, 0) {
                Ok(true) => self.n_done = message.len() - reader.0.len(),
                Ok(false) => return Ok(()),
                Err(Refused::Truncated) if !is_whole => return Ok(()),
                Err(Refused::Truncated) => return Err(Refused::Malformed),
                Err(refused) => return Err(refused),
            }
        }
    }

    /// The size of what is measured.
    #[must_use]
    pub fn measured(&self) -> Measured {
        self.measuring.total
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Layout {}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

#[derive(Debug)]
struct Measuring {
    bounds: Bounds,
    total: Measured,
    /// Number of elements of the object that is being measured; `None` outside of objects.
    n_in_object: Option<usize>,
}

impl Measuring {
    fn new(layout: &Layout, bounds: Bounds) -> Measuring {
        let total = Measured { n_items: 0, n_bytes: layout.n_bytes };
        Measuring { bounds, total, n_in_object: None }
    }

    fn message(
        &mut self,
        layout: &'static Layout,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(), Refused> {
        if depth > MAX_DEPTH {
            return Err(excess(Excess::Depth, MAX_DEPTH));
        }
        match layout.fields.len() {
            0..=FEW_FIELDS => self.fields(layout, bytes, &mut [0; FEW_FIELDS], depth),
            _ => self.fields(layout, bytes, &mut [0; MAX_FIELDS], depth),
        }
    }

    fn fields(
        &mut self,
        layout: &'static Layout,
        bytes: &[u8],
        counts: &mut [u32],
        depth: usize,
    ) -> Result<(), Refused> {
        let mut reader = Reader(bytes);
        loop {
            match self.one_field(layout, &mut reader, counts, depth) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Refused::Truncated) => return Err(Refused::Malformed),
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Measures the next field of a message; returns whether there is one.
    fn one_field(
        &mut self,
        layout: &'static Layout,
        reader: &mut Reader<'_>,
        counts: &mut [u32],
        depth: usize,
    ) -> Result<bool, Refused> {
        let Some((number, wire)) = reader.key()? else { return Ok(false) };
        let Some((index, field)) = layout.field(number) else {
            reader.skip(wire, depth)?;
            return Ok(true);
        };
        let (content, n_new) = match wire {
            Wire::Length => {
                let n_bytes = reader.length()?;
                self.check_object(layout, &field.held, n_bytes)
                    .map_err(|it| it.under(field.name))?;
                let content = reader.take(n_bytes)?;
                let n_packed = matches!(field.held, Held::Number).then_some(content.len());
                (content, n_packed.unwrap_or(1))
            }
            other => {
                reader.skip(other, depth)?;
                (&[][..], 1)
            }
        };
        if matches!(field.held, Held::Number | Held::Text) && !field.is_list {
            // The usual case: a number, or a text with its characters.
            self.total.n_bytes += if matches!(field.held, Held::Text) { content.len() } else { 0 };
            return Ok(true);
        }
        let last = counts.len() - 1;
        let count = &mut counts[index.min(last)];
        *count = count.saturating_add(u32::try_from(n_new).unwrap_or(u32::MAX));
        let counted = self.count(layout, field, *count, n_new);
        counted
            .and_then(|()| self.field(layout, field, content, n_new, depth))
            .map_err(|refused| refused.under(field.name))?;
        Ok(true)
    }

    /// Checks the length of a field in which an object begins.
    fn check_object(&self, outer: &Layout, held: &Held, n_bytes: usize) -> Result<(), Refused> {
        let Held::Message(layout) = held else { return Ok(()) };
        let limit = self.bounds.max_object_bytes;
        match layout.is_object && !outer.is_object && n_bytes > limit {
            true => Err(excess(Excess::ObjectBytes, limit)),
            false => Ok(()),
        }
    }

    fn count(
        &mut self,
        layout: &Layout,
        field: &Field,
        count: u32,
        n_new: usize,
    ) -> Result<(), Refused> {
        if !field.is_list {
            return match matches!(field.held, Held::Message(_)) && count > MAX_OCCURRENCES {
                true => Err(excess(Excess::Occurrences, MAX_OCCURRENCES as usize)),
                false => Ok(()),
            };
        }
        let Bounds { max_list_items, max_object_items, max_request_items, .. } = self.bounds;
        let is_short = !field.is_long && matches!(field.held, Held::Message(_) | Held::Map(_));
        let limit = match (layout.is_object, is_short) {
            (false, _) => max_request_items,
            (true, true) => max_list_items,
            (true, false) => max_object_items,
        };
        if count as usize > limit {
            return Err(excess(Excess::Items, limit));
        }
        self.total.n_items += n_new;
        if let Some(n) = &mut self.n_in_object {
            *n += n_new;
            if *n > max_object_items {
                return Err(excess(Excess::ObjectItems, max_object_items));
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        layout: &Layout,
        field: &Field,
        content: &[u8],
        n_numbers: usize,
        depth: usize,
    ) -> Result<(), Refused> {
        // A growing list may have room for twice as many.
        let doubled = if field.is_list { 2 } else { 0 };
        match &field.held {
            Held::Number => self.total.n_bytes += doubled * 8 * n_numbers,
            Held::Text => self.total.n_bytes += doubled * TEXT_BYTES + content.len(),
            Held::Message(held) => {
                // A value that is no list is a part of the message that holds it, or alone behind a pointer.
                self.total.n_bytes += doubled.max(1) * held.n_bytes;
                self.inner(layout, held, content, depth)?;
            }
            Held::Map(value) => {
                self.total.n_bytes += 2 * (ENTRY_BYTES + value.map_or(0, |value| value.n_bytes));
                self.entry(layout, *value, content, depth)?;
            }
        }
        Ok(())
    }

    /// Measures a message inside of another; an object that begins here is counted by itself.
    fn inner(
        &mut self,
        outer: &Layout,
        layout: &'static Layout,
        content: &[u8],
        depth: usize,
    ) -> Result<(), Refused> {
        if !layout.is_object || outer.is_object {
            return self.message(layout, content, depth + 1);
        }
        let before = self.n_in_object.replace(0);
        let measured = self.message(layout, content, depth + 1);
        self.n_in_object = before;
        measured
    }

    fn entry(
        &mut self,
        outer: &Layout,
        value: Option<&'static Layout>,
        content: &[u8],
        depth: usize,
    ) -> Result<(), Refused> {
        const VALUE: u32 = 2;
        let Some(layout) = value else {
            self.total.n_bytes += content.len();
            return Ok(());
        };
        let mut reader = Reader(content);
        while let Some((number, wire)) = reader.key()? {
            match (number, wire) {
                (VALUE, Wire::Length) => {
                    let n_bytes = reader.length()?;
                    self.check_object(outer, &Held::Message(layout), n_bytes)?;
                    let value = reader.take(n_bytes)?;
                    self.inner(outer, layout, value, depth)?;
                }
                (_, Wire::Length) => self.total.n_bytes += reader.content()?.len(),
                (_, other) => reader.skip(other, depth)?,
            }
        }
        Ok(())
    }
}

fn excess(what: Excess, limit: usize) -> Refused {
    Refused::Excess { path: String::new(), what, limit }
}

/// Reason why bytes cannot be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Unreadable {
    Malformed,
    Truncated,
}

impl From<Unreadable> for Refused {
    fn from(unreadable: Unreadable) -> Refused {
        match unreadable {
            Unreadable::Malformed => Refused::Malformed,
            Unreadable::Truncated => Refused::Truncated,
        }
    }
}

impl Refused {
    fn under(self, name: &str) -> Refused {
        match self {
            Refused::Excess { path, what, limit } => {
                let path = if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") };
                Refused::Excess { path, what, limit }
            }
            Refused::Malformed | Refused::Truncated => self,
        }
    }
}

/// How a field is written (protobuf's wire types).
#[derive(Copy, Clone, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Length,
    Group,
    GroupEnd,
    Fixed32,
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Number and form of the next field; `None` at the end.
    fn key(&mut self) -> Result<Option<(u32, Wire)>, Unreadable> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Length,
            3 => Wire::Group,
            4 => Wire::GroupEnd,
            5 => Wire::Fixed32,
            _ => return Err(Unreadable::Malformed),
        };
        match u32::try_from(key >> 3) {
            Ok(number @ 1..) => Ok(Some((number, wire))),
            Ok(0) | Err(_) => Err(Unreadable::Malformed),
        }
    }

    fn varint(&mut self) -> Result<u64, Unreadable> {
        if let Some((&byte @ 0..0x80, rest)) = self.0.split_first() {
            self.0 = rest;
            return Ok(byte.into());
        }
        let mut value = 0;
        for (index, &byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { Unreadable::Truncated } else { Unreadable::Malformed })
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Unreadable> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Unreadable::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Result<usize, Unreadable> {
        usize::try_from(self.varint()?).map_err(|_| Unreadable::Malformed)
    }

    fn content(&mut self) -> Result<&'a [u8], Unreadable> {
        let n = self.length()?;
        self.take(n)
    }

    fn skip(&mut self, wire: Wire, depth: usize) -> Result<(), Unreadable> {
        match wire {
            Wire::Varint => self.varint().map(drop),
            Wire::Fixed64 => self.take(8).map(drop),
            Wire::Fixed32 => self.take(4).map(drop),
            Wire::Length => self.content().map(drop),
            Wire::GroupEnd => Err(Unreadable::Malformed),
            Wire::Group if depth >= MAX_DEPTH => Err(Unreadable::Malformed),
            Wire::Group => loop {
                match self.key()?.ok_or(Unreadable::Truncated)? {
                    (_, Wire::GroupEnd) => return Ok(()),
                    (_, inner) => self.skip(inner, depth + 1)?,
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::berth_v1::{BatchEntry, PlaceBatchRequest, PlaceRequest};
    use crate::core_v1;
    use prost::Message as _;

    const PLACE: &str = "/berth.v1.PlacementService/Place";
    const BATCH: &str = "/berth.v1.PlacementService/PlaceBatch";
    const BOUNDS: Bounds = Bounds {
        max_list_items: 100,
        max_object_items: 1_000,
        max_object_bytes: 50_000,
        max_request_items: 5_000,
    };

    fn measure(path: &str, message: &[u8]) -> Result<Measured, Refused> {
        of_request(path).unwrap().measure(message, &BOUNDS)
    }

    fn pod(n_containers: usize, n_ports: usize) -> core_v1::Pod {
        let ports = vec![core_v1::ContainerPort::default(); n_ports];
        let container = core_v1::Container { ports, ..Default::default() };
        let containers = vec![container; n_containers];
        let spec = core_v1::PodSpec { containers, ..Default::default() };
        core_v1::Pod { spec: Some(spec), ..Default::default() }
    }

    fn place(pod: core_v1::Pod) -> Vec<u8> {
        PlaceRequest { pod: Some(pod.into()), ..Default::default() }.encode_to_vec()
    }

    fn refused(message: &[u8]) -> (String, Excess, usize) {
        match measure(PLACE, message).unwrap_err() {
            Refused::Excess { path, what, limit } => (path, what, limit),
            Refused::Malformed | Refused::Truncated => panic!("it is a message"),
        }
    }

    #[test]
    fn lists_are_counted_and_named() {
        let measured = measure(PLACE, &place(pod(100, 0))).unwrap();
        assert_eq!(measured.n_items, 100);
        assert!(measured.n_bytes >= 100 * size_of::<core_v1::Container>(), "{measured:?}");
        assert_eq!(
            refused(&place(pod(101, 0))),
            ("pod.spec.containers".into(), Excess::Items, 100)
        );
        let (path, what, limit) = refused(&place(pod(20, 60)));
        assert_eq!(
            (&*path, what, limit),
            ("pod.spec.containers.ports", Excess::ObjectItems, 1_000)
        );
        let mut long = pod(0, 0);
        let labels = (0..101).map(|n| (n.to_string(), String::new()));
        long.metadata.get_or_insert_default().labels = labels.collect();
        assert_eq!(refused(&place(long)), ("pod.metadata.labels".into(), Excess::Items, 100));
        let mut wide = pod(0, 0);
        wide.metadata.get_or_insert_default().name = "x".repeat(60_000);
        assert_eq!(refused(&place(wide)), ("pod".into(), Excess::ObjectBytes, 50_000));
    }

    #[test]
    fn each_object_of_a_request_is_counted_by_itself() {
        let entry = BatchEntry { pod: Some(pod(90, 5).into()), ..Default::default() };
        let request =
            |n| PlaceBatchRequest { entries: vec![entry.clone(); n], ..Default::default() };
        let measured = measure(BATCH, &request(20).encode_to_vec()).unwrap();
        assert_eq!(measured.n_items, 20 * (1 + 90 + 450));
        let empty =
            PlaceBatchRequest { entries: vec![BatchEntry::default(); 5_001], ..Default::default() };
        let refused = measure(BATCH, &empty.encode_to_vec()).unwrap_err();
        let path = "entries".to_owned();
        assert_eq!(refused, Refused::Excess { path, what: Excess::Items, limit: 5_000 });
    }

    /// Merged occurrences of one field would make one long list of many short ones.
    #[test]
    fn a_field_that_is_no_list_comes_a_few_times() {
        let once = place(pod(90, 0));
        assert!(measure(PLACE, &once.repeat(4)).is_ok());
        assert_eq!(refused(&once.repeat(5)), ("pod".into(), Excess::Occurrences, 4));
    }

    #[test]
    fn what_is_no_message_is_told_without_reading_beyond_it() {
        let whole = place(pod(3, 3));
        for n in 0..whole.len() {
            let decoded = PlaceRequest::decode(&whole[..n]);
            let measured = measure(PLACE, &whole[..n]);
            assert!(measured != Err(Refused::Malformed) || decoded.is_err(), "{n}");
        }
        for garbage in [&[0xff; 40][..], &[0x0b; 300], &[0x0c]] {
            assert_eq!(measure(PLACE, garbage), Err(Refused::Malformed));
        }
    }

    /// However a message comes in, the result is that of the whole; what is too long is noticed when it is there.
    #[test]
    fn a_message_is_measured_while_it_comes_in() {
        let layout = of_request(BATCH).unwrap();
        let entry = BatchEntry { pod: Some(pod(3, 2).into()), ..Default::default() };
        let request = PlaceBatchRequest { entries: vec![entry; 9], ..Default::default() };
        let whole = request.encode_to_vec();
        for step in [1, 2, 3, 7, 50] {
            let mut meter = Meter::new(layout, BOUNDS);
            for end in (0..whole.len()).step_by(step) {
                meter.advance(&whole[..end], false).unwrap();
            }
            meter.advance(&whole, true).unwrap();
            assert_eq!(Ok(meter.measured()), layout.measure(&whole, &BOUNDS));
        }
        let mut meter = Meter::new(layout, BOUNDS);
        assert!(meter.advance(&[0x0a, 0].repeat(5_000), false).is_ok());
        assert!(matches!(
            meter.advance(&[0x0a, 0].repeat(5_001), false),
            Err(Refused::Excess { .. })
        ));
        let mut meter = Meter::new(layout, BOUNDS);
        assert_eq!(
            meter.advance(&[0; 7], false),
            Err(Refused::Malformed),
            "no field has the number 0"
        );
        // A pod that announces more than it may have is not awaited.
        let announced = [0x0a, 0xc8, 0xd0, 0x07, 0x0a, 0xc0, 0xd0, 0x07];
        let mut meter = Meter::new(of_request(PLACE).unwrap(), BOUNDS);
        let refused = meter.advance(&announced, false).unwrap_err();
        assert!(
            matches!(refused, Refused::Excess { what: Excess::ObjectBytes, .. }),
            "{refused:?}"
        );
    }

    #[test]
    fn every_request_has_a_layout_with_few_enough_fields() {
        assert!(REQUESTS.len() > 50);
        for method in crate::access::METHODS {
            let mut left = vec![of_request(method.path).unwrap()];
            let mut seen: Vec<&Layout> = Vec::new();
            while let Some(layout) = left.pop() {
                if seen.contains(&layout) {
                    continue;
                }
                seen.push(layout);
                assert!(layout.fields.len() <= MAX_FIELDS, "{layout:?}");
                left.extend(layout.fields.iter().filter_map(|field| match field.held {
                    Held::Message(held) | Held::Map(Some(held)) => Some(held),
                    Held::Map(None) | Held::Number | Held::Text => None,
                }));
            }
        }
    }
}
