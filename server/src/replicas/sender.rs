//! Sender: asks the replica that decides, in the name of a caller, for something that this replica has made out of the
//! caller's request.

use std::time::Instant;

use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{ReleaseRequest, ReleaseResponse, ReserveRequest, ReserveResponse};
use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Response, Status};

use super::forwarded::{CALLER, FORWARDED_BY, encode_caller};
use crate::auth::Caller;
use crate::clock;

/// In whose name a request is sent, and by whom.
pub(crate) struct Sender<'a> {
    pub(crate) caller: &'a Caller,
    /// Name of this replica.
    pub(crate) replica: &'a str,
    /// Header that names the request, so that it is carried out once; `None` for one without a name.
    pub(crate) request_id: Option<(&'static str, &'a str)>,
    pub(crate) until: Option<Instant>,
}

impl Sender<'_> {
    /// Has decisions carried out.
    ///
    /// # Errors
    /// The status with which the other replica refuses; `UNAVAILABLE` if it cannot be reached.
    pub(crate) async fn reserve(
        &self,
        channel: Channel,
        request: ReserveRequest,
    ) -> Result<Response<ReserveResponse>, Status> {
        let mut client = PlacementServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        client.reserve(self.request(request)?).await
    }

    /// Has a reservation released.
    ///
    /// # Errors
    /// The status with which the other replica refuses; `UNAVAILABLE` if it cannot be reached.
    pub(crate) async fn release(
        &self,
        channel: Channel,
        request: ReleaseRequest,
    ) -> Result<Response<ReleaseResponse>, Status> {
        PlacementServiceClient::new(channel).release(self.request(request)?).await
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, Status> {
        let headers = self.headers().ok_or_else(|| Status::unavailable("not to be told"))?;
        let headers = MetadataMap::from_headers(headers);
        let mut request = Request::from_parts(headers, Extensions::default(), message);
        if let Some(until) = self.until {
            request.set_timeout(until.saturating_duration_since(clock::now()));
        }
        Ok(request)
    }

    /// `None` for a text that cannot be a header.
    fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(CALLER, encode_caller(self.caller)?);
        headers.insert(FORWARDED_BY, self.replica.parse().ok()?);
        if let Some((name, id)) = self.request_id {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(id).ok()?);
        }
        Some(headers)
    }
}
