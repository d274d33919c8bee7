//! Objects in a bucket.

use std::sync::Arc;

use bytes::Bytes;
use nutfilter_mint::Object;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectMeta, ObjectStore, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use tokio::runtime::Runtime;
use url::Url;

use crate::{DestinationError, Found, Put, Store, StoreError, Version};

/// Time for one request. The library's default of 30 s is too short for large filters.
const TIMEOUT: &str = "10 minutes";

/// The beginnings of the variables that configure a store.
const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// The metadata of an object: its date and the SHA-256 of its bytes. Stores differ in the characters that they allow
/// in such names, so there are only letters and digits in them.
const DATE: &str = "nutfilterdate";
const DIGEST: &str = "nutfiltersha256";

pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
}

impl Bucket {
    pub(crate) fn open(destination: &str) -> Result<Self, DestinationError> {
        let url = Url::parse(destination).map_err(DestinationError::url)?;
        if url.password().is_some() {
            let reason = "credentials belong in the environment, not in the URL";
            return Err(DestinationError::url(reason));
        }
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            let is_used = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            is_used.then(|| (name.to_ascii_lowercase(), value))
        });
        let options = std::iter::once(("timeout".to_owned(), TIMEOUT.to_owned())).chain(variables);
        // An error means that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let invalid =
            |source: Box<dyn std::error::Error + Send + Sync>| DestinationError::Configuration {
                url: destination.to_owned(),
                source,
            };
        let (store, prefix) =
            object_store::parse_url_opts(&url, options).map_err(|error| invalid(error.into()))?;
        Self::new(store.into(), prefix).map_err(|error| invalid(error.into()))
    }

    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            store,
            prefix,
            runtime,
        })
    }

    fn location(&self, path: &str) -> Result<Path, StoreError> {
        let path = match self.prefix.as_ref() {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        Path::parse(path).map_err(|error| StoreError::new("making the key", error))
    }
}

impl Store for Bucket {
    fn read(&mut self, path: &str) -> Result<Option<(Vec<u8>, Version)>, StoreError> {
        let location = self.location(path)?;
        let read = async {
            let got = self
                .store
                .get_opts(&location, GetOptions::default())
                .await?;
            let version = version(&got.meta);
            Ok((got.bytes().await?.to_vec(), version))
        };
        match self.runtime.block_on(read) {
            Ok(read) => Ok(Some(read)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::new("reading", error)),
        }
    }

    fn find(&mut self, object: &Object) -> Result<Option<Found>, StoreError> {
        let location = self.location(&object.path)?;
        let options = GetOptions::default().with_head(true);
        let got = match self
            .runtime
            .block_on(self.store.get_opts(&location, options))
        {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(StoreError::new("reading", error)),
        };
        let metadata = |name: &'static str| {
            let value = got.attributes.get(&Attribute::Metadata(name.into()));
            value.map(|value| value.as_ref())
        };
        Ok(Some(Found {
            date: metadata(DATE)
                .and_then(|date| date.parse().ok())
                .unwrap_or(0),
            is_same: metadata(DIGEST) == Some(&*object.digest()),
            version: version(&got.meta),
        }))
    }

    fn put(
        &mut self,
        object: &Object,
        bytes: Bytes,
        cache: &str,
        over: Option<&Version>,
    ) -> Result<Put, StoreError> {
        let location = self.location(&object.path)?;
        let mode = match over {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: version.e_tag.clone(),
                version: version.version.clone(),
            }),
        };
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::ContentType, object.media_type.into());
        attributes.insert(Attribute::CacheControl, cache.to_owned().into());
        attributes.insert(Attribute::Metadata(DIGEST.into()), object.digest().into());
        if let Some(date) = object.date {
            attributes.insert(Attribute::Metadata(DATE.into()), date.to_string().into());
        }
        let options = PutOptions {
            mode,
            attributes,
            ..PutOptions::default()
        };
        let payload = PutPayload::from_bytes(bytes);
        let put = self.store.put_opts(&location, payload, options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(Put::Written),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(Put::Conflict),
            // It was deleted in the meantime. Without a version, the bucket is missing.
            Err(object_store::Error::NotFound { .. }) if over.is_some() => Ok(Put::Conflict),
            Err(error) => Err(StoreError::new("writing", error)),
        }
    }
}

fn version(meta: &ObjectMeta) -> Version {
    Version {
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
    }
}

#[cfg(test)]
mod tests {
    use nutfilter_mint::Body;
    use object_store::memory::InMemory;

    use super::*;

    fn object(text: &'static str, date: u64) -> Object {
        Object::json("v1/info", Body::new(text, None), date)
    }

    fn put(bucket: &mut Bucket, object: &Object, over: Option<&Version>) -> Put {
        let bytes = object.read().unwrap();
        bucket
            .put(object, bytes, "public, max-age=0", over)
            .unwrap()
    }

    #[test]
    fn objects_are_replaced_only_if_unchanged() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut bucket = Bucket::new(Arc::clone(&store), Path::from("mint")).unwrap();
        let (first, second, third) = (object("1", 10), object("2", 20), object("3", 30));
        assert!(bucket.find(&first).unwrap().is_none());
        assert_eq!(put(&mut bucket, &first, None), Put::Written);
        assert_eq!(put(&mut bucket, &second, None), Put::Conflict);

        let found = bucket.find(&first).unwrap().unwrap();
        assert_eq!((found.date, found.is_same), (10, true));
        assert_eq!(
            put(&mut bucket, &second, Some(&found.version)),
            Put::Written
        );
        assert_eq!(
            put(&mut bucket, &third, Some(&found.version)),
            Put::Conflict
        );
        let found = bucket.find(&third).unwrap().unwrap();
        assert_eq!((found.date, found.is_same), (20, false));

        let path = Path::from("mint/v1/info");
        let options = GetOptions::default().with_head(true);
        let got = bucket
            .runtime
            .block_on(store.get_opts(&path, options))
            .unwrap();
        let attribute = |attribute| got.attributes.get(&attribute).unwrap().to_string();
        assert_eq!(attribute(Attribute::ContentType), "application/json");
        assert_eq!(attribute(Attribute::CacheControl), "public, max-age=0");
    }

    #[test]
    fn password_in_the_url_is_refused_and_not_quoted() {
        let error = Bucket::open("s3://user:hunter2@bucket/x").err().unwrap();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
